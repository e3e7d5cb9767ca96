package clerk

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// Options of a Clerk.
type Options struct {
	// Judge gives an opinion of a text; judge.Judge outside tests.
	Judge func(text string) judge.Opinion
	// Remember is the number of verdicts kept (classify.cache_size).
	Remember int
	// AtOnce is how many texts are judged at the same time.
	AtOnce int
	// Announce is called with each fresh verdict. It must not block.
	Announce func(database string, key sqltoken.Key, v verdict.Verdict)
	Metrics  *Metrics
	Log      *slog.Logger
}

// Clerk gives verdicts. It is safe for concurrent use.
type Clerk struct {
	opts   Options
	cache  *lru.Cache[matter, verdict.Verdict]
	flight singleflight.Group
	slots  chan struct{}
}

// matter is what a verdict is about.
type matter struct {
	database string
	key      sqltoken.Key
}

// New gives a Clerk that remembers nothing yet.
func New(o Options) (*Clerk, error) {
	c := &Clerk{opts: o, slots: make(chan struct{}, o.AtOnce)}
	var err error
	c.cache, err = lru.NewWithEvict(o.Remember, func(matter, verdict.Verdict) { o.Metrics.evicted.Inc() })
	if err != nil {
		return nil, fmt.Errorf("make the verdict cache: %w", err)
	}
	o.Metrics.entries(c.cache.Len)
	return c, nil
}

// Resize changes how many verdicts are kept.
func (c *Clerk) Resize(n int) { c.cache.Resize(n) }

// Recall gives the verdict if it is known.
func (c *Clerk) Recall(r *verdict.Request) (verdict.Verdict, bool) {
	v, ok := c.cache.Get(matter{r.Database, r.Key})
	if ok {
		c.opts.Metrics.hits.Inc()
	} else {
		c.opts.Metrics.misses.Inc()
	}
	return v, ok
}

// Decide gives the verdict of a text that is not known, waiting for a free place
// before the judge or for the one who already asks.
func (c *Clerk) Decide(r *verdict.Request) verdict.Verdict {
	m := matter{r.Database, r.Key}
	v, _, _ := c.flight.Do(r.Database+"\x00"+string(r.Key[:]), func() (any, error) {
		// Whoever was just before may have left the verdict.
		if v, ok := c.cache.Peek(m); ok {
			return v, nil
		}
		c.slots <- struct{}{}
		defer func() { <-c.slots }()
		v := c.hear(r)
		c.cache.Add(m, v)
		c.opts.Announce(r.Database, r.Key, v)
		return v, nil
	})
	return v.(verdict.Verdict)
}

// hear calls the judge. A text that makes it panic would do so again, so the
// verdict is as good as any.
func (c *Clerk) hear(r *verdict.Request) (v verdict.Verdict) {
	start := time.Now()
	defer func() {
		c.opts.Metrics.seconds.Observe(time.Since(start).Seconds())
		if p := recover(); p != nil {
			c.opts.Metrics.panics.Inc()
			c.opts.Log.Error("judging a statement panicked, it counts as a write", obs.KeyDatabase, r.Database,
				"key", fmt.Sprintf("%x", r.Key), obs.KeyError, p, "stack", string(debug.Stack()))
			v = verdict.Unclassified()
		}
		c.opts.Metrics.judged.WithLabelValues(v.Kind.String()).Inc()
	}()
	o := c.opts.Judge(r.Text)
	c.opts.Log.Debug("judged", obs.KeyDatabase, r.Database, "key", fmt.Sprintf("%x", r.Key),
		"kind", o.Kind, "effects", o.Effects, obs.KeyReason, o.Reason)
	return o.Verdict
}
