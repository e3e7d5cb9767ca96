package clerk

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

type news struct {
	database string
	key      sqltoken.Key
	v        verdict.Verdict
}

// office is a Clerk with a scripted judge, and what it announced.
type office struct {
	*Clerk
	mu   sync.Mutex
	news []news
}

func open(t *testing.T, remember, atOnce int, judge func(string) judge.Opinion) *office {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	o := &office{}
	o.Clerk, err = New(Options{
		Judge: judge, Remember: remember, AtOnce: atOnce, Metrics: m,
		Announce: func(database string, key sqltoken.Key, v verdict.Verdict) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.news = append(o.news, news{database, key, v})
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func request(database string, key byte) *verdict.Request {
	return &verdict.Request{Database: database, Key: sqltoken.Key{key}, Text: "text"}
}

func read(string) judge.Opinion {
	return judge.Opinion{Verdict: verdict.Verdict{Kind: verdict.Read, Fingerprint: 5}}
}

func (o *office) wantCount(t *testing.T, name string, c prometheus.Collector, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(c); got != want {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

func TestVerdictsAreRememberedByDatabaseAndKey(t *testing.T) {
	o := open(t, 10, 1, read)
	if _, ok := o.Recall(request("a", 1)); ok {
		t.Fatal("knows what it was never told")
	}
	if v := o.Decide(request("a", 1)); v.Kind != verdict.Read || v.Fingerprint != 5 {
		t.Fatalf("decided %+v", v)
	}
	if v, ok := o.Recall(request("a", 1)); !ok || v.Kind != verdict.Read {
		t.Fatal("forgot")
	}
	for _, r := range []*verdict.Request{request("b", 1), request("a", 2)} {
		if _, ok := o.Recall(r); ok {
			t.Fatalf("took %v for another", r)
		}
	}
	want := news{"a", sqltoken.Key{1}, verdict.Verdict{Kind: verdict.Read, Fingerprint: 5}}
	if len(o.news) != 1 || o.news[0] != want {
		t.Fatalf("announced %+v", o.news)
	}
	o.wantCount(t, "hits", o.opts.Metrics.hits, 1)
	o.wantCount(t, "misses", o.opts.Metrics.misses, 3)
}

func TestTheLeastRecentlyUsedIsForgotten(t *testing.T) {
	o := open(t, 2, 1, read)
	o.Decide(request("a", 1))
	o.Decide(request("a", 2))
	o.Recall(request("a", 1))
	o.Decide(request("a", 3))
	for key, want := range map[byte]bool{1: true, 2: false, 3: true} {
		if _, ok := o.Recall(request("a", key)); ok != want {
			t.Errorf("knows %d: %v, want %v", key, ok, want)
		}
	}
	o.Resize(1)
	o.wantCount(t, "evicted", o.opts.Metrics.evicted, 2)
	if n := o.cache.Len(); n != 1 {
		t.Errorf("%d verdicts after the cache was made smaller", n)
	}
}

func TestOneTextIsJudgedOnce(t *testing.T) {
	var judged atomic.Int64
	begun, let := make(chan struct{}), make(chan struct{})
	o := open(t, 10, 4, func(string) judge.Opinion {
		if judged.Add(1) == 1 {
			close(begun)
		}
		<-let
		return read("")
	})
	var wg sync.WaitGroup
	ask := func() {
		if v := o.Decide(request("a", 1)); v.Kind != verdict.Read {
			t.Errorf("decided %+v", v)
		}
	}
	wg.Go(ask)
	<-begun
	for range 20 {
		wg.Go(ask)
	}
	close(let)
	wg.Wait()
	if n := judged.Load(); n != 1 || len(o.news) != 1 {
		t.Fatalf("judged %d times, announced %d times", n, len(o.news))
	}
}

func TestJudgementsAtOnceAreLimited(t *testing.T) {
	const limit = 3
	var now, most atomic.Int64
	o := open(t, 100, limit, func(string) judge.Opinion {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return read("")
	})
	var wg sync.WaitGroup
	for i := range byte(100) {
		wg.Go(func() { o.Decide(request("a", i)) })
	}
	wg.Wait()
	if m := most.Load(); m > limit {
		t.Fatalf("%d at once, limit %d", m, limit)
	}
}

func TestAPanicIsAWriteAndIsNotRepeated(t *testing.T) {
	panics := 0
	o := open(t, 10, 1, func(text string) judge.Opinion {
		panics++
		panic(strings.Repeat("x", 3))
	})
	for range 2 {
		v, ok := o.Recall(request("a", 1))
		if !ok {
			v = o.Decide(request("a", 1))
		}
		if v != verdict.Unclassified() {
			t.Fatalf("decided %+v", v)
		}
	}
	if panics != 1 {
		t.Fatalf("judged %d times", panics)
	}
	o.wantCount(t, "panics", o.opts.Metrics.panics, 1)
}
