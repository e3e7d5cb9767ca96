package clerk

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/epoch"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse"
)

type news struct {
	database string
	key      sqltoken.Key
	v        verdict.Verdict
}

// office is a Clerk with a scripted parser, judge and quarantine, and what it announced.
type office struct {
	*Clerk
	mu   sync.Mutex
	news []news
	held map[sqltoken.Key]string
	library
}

// library is scripted Catalogs.
type library struct {
	mu sync.Mutex
	// more is how many times another look will find more.
	more            int
	again, changing []string
	// blind says that no database can be looked into.
	blind bool
	// patient says of each time that it was asked to look again whether that may take a while.
	patient []bool
}

func (l *library) Of(string) judge.Catalog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blind {
		return judge.Blind{}
	}
	return judge.Static{}
}

func (l *library) Again(database string, since judge.Catalog, patient bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again = append(l.again, database)
	l.patient = append(l.patient, patient)
	l.more--
	return since != nil && l.more >= 0
}

func (l *library) Changing(database string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changing = append(l.changing, database)
}

// Holds implements Quarantine.
func (o *office) Holds(key sqltoken.Key, _ string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.held[key]
	return ok
}

// Add implements Quarantine.
func (o *office) Add(_ string, key sqltoken.Key, _, cause string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held[key] = cause
	return nil
}

// open gives an office whose judge is asked with the text as the normalized one.
func open(t testing.TB, remember int, judge func(text string) judge.Opinion) *office {
	t.Helper()
	return openParser(t, remember, func(text string, _ bool, use func(parse.Parsed)) error {
		use(parse.Parsed{Normalized: text})
		return nil
	}, judge)
}

func openParser(t testing.TB, remember int, parser func(string, bool, func(parse.Parsed)) error, think func(string) judge.Opinion) *office {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	o := &office{held: make(map[sqltoken.Key]string)}
	o.Clerk, err = New(Options{
		Parse:      parser,
		Judge:      func(_ judge.Catalog, p parse.Parsed) judge.Opinion { return think(p.Normalized) },
		Catalogs:   &o.library,
		Quarantine: o, Remember: remember, Metrics: m,
		Numbers: epoch.New(filepath.Join(t.TempDir(), epoch.FileName), time.Now, slog.New(slog.NewTextHandler(t.Output(), nil))),
		Announce: func(database string, key sqltoken.Key, v verdict.Verdict, _ About) {
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

// decide wants a verdict.
func (o *office) decide(t testing.TB, r *verdict.Request) verdict.Verdict {
	t.Helper()
	v, err := o.Decide(r)
	if err != nil {
		t.Fatal(err)
	}
	return v
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
	o := open(t, 10, read)
	if _, ok := o.Recall(request("a", 1)); ok {
		t.Fatal("knows what it was never told")
	}
	if v := o.decide(t, request("a", 1)); v.Kind != verdict.Read || v.Fingerprint != 5 {
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

func TestWhatIsNotKnownIsLookedUpAgainAndNotKept(t *testing.T) {
	heard := 0
	o := open(t, 10, func(text string) judge.Opinion {
		heard++
		if text == "late" && heard > 1 {
			return read("")
		}
		v := verdict.Unclassified()
		v.Passing = true
		return judge.Opinion{Verdict: v, Reason: "x", Unknown: true}
	})
	late := &verdict.Request{Database: "a", Key: sqltoken.Key{1}, Text: "late"}
	o.library.more = 1
	if v := o.decide(t, late); v.Kind != verdict.Read || heard != 2 {
		t.Fatalf("%+v after %d hearings", v, heard)
	}
	if _, ok := o.Recall(late); !ok || len(o.news) != 1 {
		t.Fatal("what became known is not kept")
	}
	never := &verdict.Request{Database: "a", Key: sqltoken.Key{2}, Text: "never"}
	for range 3 {
		if v := o.decide(t, never); v.Kind != verdict.Write || !v.Passing {
			t.Fatalf("%+v", v)
		}
	}
	if _, ok := o.Recall(never); ok || len(o.news) != 1 {
		t.Fatal("a write for want of knowledge is kept or published")
	}
	if len(o.again) != 4 || heard != 3 {
		t.Fatalf("%d looks, %d hearings: want a look each time, and a hearing only when more is known", len(o.again), heard)
	}
	if want := []bool{true, true, false, false}; !slices.Equal(o.patient, want) {
		t.Fatalf("patient: %v, want %v: who is not found once, in an open transaction perhaps, is not waited for each time", o.patient, want)
	}
	o.library.more = 1
	o.decide(t, never)
	if heard != 4 {
		t.Fatal("not heard again when more is known")
	}
}

func TestDefinitionsAreAnnounced(t *testing.T) {
	o := open(t, 10, func(text string) judge.Opinion {
		return judge.Opinion{Verdict: verdict.Verdict{Kind: verdict.Write}, Reason: "x", Defines: text == "ddl"}
	})
	o.decide(t, &verdict.Request{Database: "a", Key: sqltoken.Key{1}, Text: "ddl"})
	o.decide(t, &verdict.Request{Database: "b", Key: sqltoken.Key{2}, Text: "dml"})
	if len(o.changing) != 1 || o.changing[0] != "a" {
		t.Fatalf("%v", o.changing)
	}
}

func TestTheLeastRecentlyUsedIsForgotten(t *testing.T) {
	o := open(t, 2, read)
	o.decide(t, request("a", 1))
	o.decide(t, request("a", 2))
	o.Recall(request("a", 1))
	o.decide(t, request("a", 3))
	for key, want := range map[byte]bool{1: true, 2: false, 3: true} {
		if _, ok := o.Recall(request("a", key)); ok != want {
			t.Errorf("knows %d: %v, want %v", key, ok, want)
		}
	}
	o.Resize(1)
	o.wantCount(t, "evicted", o.opts.Metrics.evicted, 2)
	if n, _ := o.cache.size(); n != 1 {
		t.Errorf("%d verdicts after the cache was made smaller", n)
	}
}

func TestOneTextIsJudgedOnce(t *testing.T) {
	var judged atomic.Int64
	begun, let := make(chan struct{}), make(chan struct{})
	o := open(t, 10, func(string) judge.Opinion {
		if judged.Add(1) == 1 {
			close(begun)
		}
		<-let
		return read("")
	})
	var wg sync.WaitGroup
	ask := func() {
		if v, err := o.Decide(request("a", 1)); err != nil || v.Kind != verdict.Read {
			t.Errorf("decided %+v, %v", v, err)
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

func TestAPanicIsAWriteAndIsNotRepeated(t *testing.T) {
	panics := 0
	o := open(t, 10, func(text string) judge.Opinion {
		panics++
		panic(strings.Repeat("x", 3))
	})
	for range 2 {
		v, ok := o.Recall(request("a", 1))
		if !ok {
			v = o.decide(t, request("a", 1))
		}
		if v != (verdict.Verdict{Kind: verdict.Write, Effects: verdict.Unproven | verdict.Session}) {
			t.Fatalf("decided %+v", v)
		}
	}
	if panics != 1 {
		t.Fatalf("judged %d times", panics)
	}
	o.wantCount(t, "panics", o.opts.Metrics.panics, 1)
}

func TestPoisonIsParsedOnce(t *testing.T) {
	parsed := 0
	o := openParser(t, 10, func(string, bool, func(parse.Parsed)) error {
		parsed++
		return &parse.Poison{Cause: "crash"}
	}, read)
	for range 3 {
		if v := o.decide(t, request("a", 1)); v.Kind != verdict.Write || !v.Effects.Has(verdict.Unproven|verdict.Session) {
			t.Fatalf("decided %+v", v)
		}
		if _, ok := o.Recall(request("a", 1)); ok {
			t.Fatal("remembered, so that clearing the quarantine is not enough")
		}
	}
	if parsed != 1 || o.held[sqltoken.Key{1}] != "crash" || len(o.news) != 0 {
		t.Fatalf("parsed %d times, held %v, announced %v", parsed, o.held, o.news)
	}
}

// What says nothing of the text is not remembered, announced or answered.
func TestNoVerdictLeavesNoTrace(t *testing.T) {
	for _, failure := range []error{parse.ErrBusy, parse.ErrLost, parse.ErrClosed} {
		fail := true
		o := openParser(t, 10, func(_ string, _ bool, use func(parse.Parsed)) error {
			if fail {
				return failure
			}
			use(parse.Parsed{})
			return nil
		}, read)
		if v, err := o.Decide(request("a", 1)); !errors.Is(err, failure) || v.Kind != verdict.Write {
			t.Fatalf("decided %+v, %v", v, err)
		}
		if n, _ := o.cache.size(); len(o.news) != 0 || len(o.held) != 0 || n != 0 {
			t.Fatalf("%v: announced %v, held %v, remembered %d", failure, o.news, o.held, n)
		}
		fail = false
		if v := o.decide(t, request("a", 1)); v.Kind != verdict.Read {
			t.Fatalf("then decided %+v", v)
		}
	}
}

func TestWhatTheParserRefusesIsAWriteForGood(t *testing.T) {
	for _, failure := range []error{&parse.Refused{Message: "syntax error"}, parse.ErrTooLarge} {
		o := openParser(t, 10, func(string, bool, func(parse.Parsed)) error { return failure }, read)
		if v := o.decide(t, request("a", 1)); v.Kind != verdict.Write {
			t.Fatalf("decided %+v", v)
		}
		if _, ok := o.Recall(request("a", 1)); !ok || len(o.news) != 1 {
			t.Errorf("%v: remembered %v, announced %v", failure, ok, o.news)
		}
	}
}

// A text that would overflow the parser's stack does not reach it.
func TestWhatMustNotBeParsedIsNot(t *testing.T) {
	o := openParser(t, 10, func(text string, _ bool, _ func(parse.Parsed)) error {
		t.Errorf("parsed %.20q", text)
		return parse.ErrLost
	}, read)
	for i, text := range []string{"SELECT " + strings.Repeat("NOT ", 100_000) + "true", "SELECT '\xff'", "SELECT \x00"} {
		if v := o.decide(t, &verdict.Request{Database: "a", Key: sqltoken.Key{byte(i)}, Text: text}); v.Kind != verdict.Write {
			t.Errorf("decided %+v", v)
		}
	}
}

// Another classifier may know more: an opinion without knowledge of the database is given
// to who asks and to nobody else.
func TestOpinionsOfTheBlindAreNeitherKeptNorAnnounced(t *testing.T) {
	o := open(t, 10, func(string) judge.Opinion { return judge.Opinion{Verdict: verdict.Unclassified()} })
	set := func(blind bool) {
		o.library.mu.Lock()
		defer o.library.mu.Unlock()
		o.blind = blind
	}
	r := request("db", 1)
	set(true)
	if v := o.decide(t, r); v.Kind != verdict.Write {
		t.Errorf("%+v", v)
	}
	if _, ok := o.Recall(r); ok || len(o.news) != 0 || len(o.Recent(10)) != 0 {
		t.Errorf("kept %v, announced %v", ok, o.news)
	}
	// What no catalog was asked about is as true as anybody's.
	deep := request("db", 2)
	deep.Text = "\x00"
	o.decide(t, deep)
	if _, ok := o.Recall(deep); !ok || len(o.news) != 1 {
		t.Errorf("kept %v, announced %v", ok, o.news)
	}
	set(false)
	o.decide(t, r)
	if _, ok := o.Recall(r); !ok || len(o.news) != 2 {
		t.Errorf("kept %v, announced %v", ok, o.news)
	}
}
