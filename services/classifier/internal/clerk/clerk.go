package clerk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
	"unique"

	"golang.org/x/sync/singleflight"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse"
)

// Quarantine holds the texts that must not be parsed.
type Quarantine interface {
	Holds(key sqltoken.Key, text string) bool
	Add(database string, key sqltoken.Key, text, cause string) error
}

// Catalogs say what names stand for in each database.
type Catalogs interface {
	// Of gives what is known of a database. For a new one it may wait a moment.
	Of(database string) judge.Catalog
	// Again has another look because of a name that is not known, and reports whether
	// more is known than before.
	Again(database string, since judge.Catalog, patient bool) bool
	// Changing says that a statement is about to change what is known.
	Changing(database string)
}

// Numbers number the flushes; epoch.Counter outside tests.
type Numbers interface {
	// Next gives a number above known and all others.
	Next(known uint64) uint64
	// Note takes note of one that another classifier has given.
	Note(number uint64)
}

// Options of a Clerk.
type Options struct {
	// Parse has a text parsed and calls use with the result; parse.Pool.Parse outside
	// tests.
	Parse func(text string, normalize bool, use func(parse.Parsed)) error
	// Judge gives an opinion of a parsed text, by what is known of its database.
	Judge      func(c judge.Catalog, p parse.Parsed) judge.Opinion
	Catalogs   Catalogs
	Quarantine Quarantine
	Numbers    Numbers
	// Remember is the number of verdicts kept (classify.cache_size).
	Remember int
	// Announce is called with each fresh verdict and what it is about. It must not
	// block.
	Announce func(database string, key sqltoken.Key, v verdict.Verdict, about About)
	Metrics  *Metrics
	Log      *slog.Logger
}

// Clerk gives verdicts. It is safe for concurrent use.
type Clerk struct {
	opts    Options
	cache   *memory
	passing *passing
	flight  singleflight.Group

	mu sync.RWMutex
	// generations by database, for those that had a flush; guarded by mu. Nothing is
	// put into the cache without mu, so that no verdict outlives its generation.
	generations map[string]uint64
}

// About is what a fresh verdict is about, for people.
type About struct {
	// Statement is the text without constants; empty if it is long, or could have some.
	Statement string
	Names     judge.Names
}

// matter is what a verdict is about.
type matter struct {
	database unique.Handle[string]
	key      sqltoken.Key
}

// New gives a Clerk that remembers nothing yet.
func New(o Options) (*Clerk, error) {
	c := &Clerk{opts: o, generations: make(map[string]uint64)}
	var err error
	if c.cache, err = newMemory(o.Remember); err != nil {
		return nil, err
	}
	if c.passing, err = newPassing(); err != nil {
		return nil, fmt.Errorf("make the cache of passing verdicts: %w", err)
	}
	if err := o.Metrics.size(c.cache.size); err != nil {
		return nil, err
	}
	return c, nil
}

// maxStatement is the longest text that is told, in bytes.
const maxStatement = 4 << 10

// Resize changes how many verdicts are kept.
func (c *Clerk) Resize(n int) { c.opts.Metrics.evicted.Add(float64(c.cache.resize(n))) }

// Recall gives the verdict if it is known.
func (c *Clerk) Recall(r *verdict.Request) (verdict.Verdict, bool) {
	v, ok := c.cache.get(matter{unique.Make(r.Database), r.Key})
	if ok {
		c.opts.Metrics.hits.Inc()
	} else {
		c.opts.Metrics.misses.Inc()
	}
	return v, ok
}

// Decide gives the verdict of a text that is not known, waiting for the parser or
// for the one who already asks. After an error the text may be asked about again.
func (c *Clerk) Decide(r *verdict.Request) (verdict.Verdict, error) {
	by := c.opts.Catalogs.Of(r.Database) // waits; a flush when it is known must not be missed below
	m := matter{unique.Make(r.Database), r.Key}
	h, ok := c.passing.get(m, by)
	if !ok {
		h = c.decide(r)
	}
	// What was not found once may be a table that nobody sees until its transaction ends: each of
	// its rows must not wait.
	if h.Passing && c.opts.Catalogs.Again(r.Database, h.by, !ok) {
		h = c.decide(r)
	}
	if h.Passing {
		c.passing.add(m, h)
	}
	return h.Verdict, h.err
}

// decide has a text heard once at a time.
func (c *Clerk) decide(r *verdict.Request) hearing {
	m := matter{unique.Make(r.Database), r.Key}
	// Before the catalog is taken: what is judged by an older one than a flush is about
	// must not look newer.
	generation := c.generation(r.Database)
	flight := r.Database + "\x00" + strconv.FormatUint(generation, 36) + "\x00" + string(r.Key[:])
	h, _, _ := c.flight.Do(flight, func() (any, error) {
		// Whoever was just before may have left the verdict.
		if v, ok := c.cache.peek(m); ok {
			return hearing{Verdict: v}, nil
		}
		h := c.hear(r, c.opts.Catalogs.Of(r.Database))
		h.Generation = generation
		if h.keep && c.remember(r.Database, m, h.Verdict) {
			c.opts.Announce(r.Database, r.Key, h.Verdict, h.about)
		}
		return h, nil
	})
	return h.(hearing)
}

// hearing is what came of judging one text.
type hearing struct {
	verdict.Verdict
	// keep is set if the verdict holds until the next flush.
	keep bool
	// err says why there is no verdict.
	err error
	// by is the catalog that was consulted.
	by    judge.Catalog
	about About
}

// unjudged is the verdict on a text that cannot be parsed.
func unjudged(r *verdict.Request) verdict.Verdict {
	text := []byte(r.Text)
	scanned, err := sqltoken.NewScanner(sqltoken.Secret{}).Scan(text, &sqltoken.Options{ServerMajor: judge.NewestMajor})
	if err != nil {
		scanned = sqltoken.Result{}
	}
	return verdict.Unjudged(text, scanned, judge.NewestMajor)
}

// hear has a text parsed and judged. A text that makes the judge panic would do so
// again, so that verdict is as good as any.
func (c *Clerk) hear(r *verdict.Request, by judge.Catalog) (h hearing) {
	start := time.Now()
	defer func() {
		c.opts.Metrics.seconds.Observe(time.Since(start).Seconds())
		if p := recover(); p != nil {
			c.opts.Metrics.panics.Inc()
			c.log(r).Error("judging a statement panicked, it counts as a write", obs.KeyError, p, "stack", string(debug.Stack()))
			h = hearing{Verdict: unjudged(r), keep: true}
		}
		if h.err == nil {
			c.opts.Metrics.judged.WithLabelValues(h.Kind.String()).Inc()
		}
	}()
	o, done := judge.Refuse(r.Text)
	if done {
		if !o.Verdict.Effects.Has(verdict.Unparsable) {
			o.Verdict = unjudged(r)
		}
		return hearing{Verdict: o.Verdict, keep: true}
	}
	if c.opts.Quarantine.Holds(r.Key, r.Text) {
		return hearing{Verdict: unjudged(r)}
	}
	var normalized string
	judged := false
	err := c.opts.Parse(judge.Bare(r.Text), c.debug() || len(r.Text) <= maxStatement, func(p parse.Parsed) {
		o, normalized, judged = c.opts.Judge(by, p), p.Normalized, true
	})
	var refused *parse.Refused
	var poison *parse.Poison
	switch {
	case err == nil:
	case errors.As(err, &refused):
		o = judge.Unparsable(refused.Message)
	case errors.Is(err, parse.ErrTooLarge):
		o = judge.Opinion{Verdict: unjudged(r), Reason: err.Error()}
	case errors.As(err, &poison):
		log := c.log(r)
		log.Error("a statement ended a parser process; it counts as a write and is not parsed again",
			"cause", poison.Cause, "bytes", len(r.Text), obs.KeyReason, poison.Detail)
		if err := c.opts.Quarantine.Add(r.Database, r.Key, r.Text, poison.Cause); err != nil {
			log.Error("the statement is in quarantine only in this classifier, until the file can be written", obs.KeyError, err)
		}
		return hearing{Verdict: unjudged(r)}
	default:
		return hearing{Verdict: verdict.Unclassified(), err: err}
	}
	if c.debug() {
		c.log(r).Debug("judged", "kind", o.Kind, "effects", o.Effects, obs.KeyReason, o.Reason, "statement", normalized)
	}
	if o.Defines {
		c.opts.Catalogs.Changing(r.Database)
	}
	h = hearing{Verdict: o.Verdict, keep: !o.Passing && !(judged && blind(by)), by: by, about: About{Names: o.Names}}
	if o.Template && len(normalized) <= maxStatement {
		h.about.Statement = normalized
	}
	return h
}

// blind reports whether nothing was known of the database. Another classifier may be able to
// look into it, and what that one says is not to be displaced: an opinion of the blind is
// an answer to who asks, and nobody else hears of it.
func blind(by judge.Catalog) bool {
	_, is := by.(judge.Blind)
	return is
}

// log names the matter in each line.
func (c *Clerk) log(r *verdict.Request) *slog.Logger {
	return c.opts.Log.With(obs.KeyDatabase, r.Database, "key", fmt.Sprintf("%x", r.Key))
}

// debug reports whether judgements are logged, for which normalized texts are made.
func (c *Clerk) debug() bool { return c.opts.Log.Enabled(context.Background(), slog.LevelDebug) }
