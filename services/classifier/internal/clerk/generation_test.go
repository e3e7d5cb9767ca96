package clerk

import (
	"runtime"
	"testing"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

func (o *office) wantKnown(t *testing.T, database string, key byte, want bool) {
	t.Helper()
	if _, ok := o.Recall(request(database, key)); ok != want {
		t.Fatalf("knows %s %d: %v, want %v", database, key, ok, want)
	}
}

func TestAFlushForgetsOneDatabase(t *testing.T) {
	o := open(t, 10, read)
	o.decide(t, request("a", 1))
	o.decide(t, request("b", 1))
	first := o.Flush("a")
	o.wantKnown(t, "a", 1, false)
	o.wantKnown(t, "b", 1, true)
	if v := o.decide(t, request("a", 1)); v.Generation != first || o.news[len(o.news)-1].v != v {
		t.Fatalf("decided %+v, announced %+v, in generation %d", v, o.news, first)
	}
	if second := o.Flush("a"); second <= first {
		t.Fatalf("generation %d after %d", second, first)
	}
}

// What is judged while the flush comes was judged by what no longer holds.
func TestAFlushDuringAJudgementWins(t *testing.T) {
	begun, let := make(chan struct{}), make(chan struct{})
	o := open(t, 10, func(string) judge.Opinion {
		select {
		case <-let:
		default:
			close(begun)
			<-let
		}
		return read("")
	})
	old := make(chan verdict.Verdict)
	go func() {
		v, _ := o.Decide(request("a", 1))
		old <- v
	}()
	<-begun
	generation := o.Flush("a")
	// One who asks after the flush must not be given the old judgement either.
	fresh := make(chan verdict.Verdict)
	go func() {
		v, _ := o.Decide(request("a", 1))
		fresh <- v
	}()
	close(let)
	if v := <-old; v.Generation != 0 {
		t.Errorf("the old verdict is of generation %d", v.Generation)
	}
	if v := <-fresh; v.Generation != generation {
		t.Errorf("the fresh verdict is of generation %d, want %d", v.Generation, generation)
	}
	o.wantKnown(t, "a", 1, true)
	if len(o.news) != 1 || o.news[0].v.Generation != generation {
		t.Errorf("announced %+v", o.news)
	}
}

func TestASiblingsFlushIsNewsOnce(t *testing.T) {
	o := open(t, 10, read)
	o.decide(t, request("a", 1))
	own := o.Flush("a")
	o.decide(t, request("a", 1))
	if o.Flushed("a", own) || o.Flushed("a", own-1) {
		t.Fatal("an old flush is taken for news")
	}
	o.wantKnown(t, "a", 1, true)
	if !o.Flushed("a", own+1) {
		t.Fatal("a new flush is not news")
	}
	o.wantKnown(t, "a", 1, false)
	if g := o.Generations(); len(g) != 1 || g["a"] != own+1 {
		t.Fatalf("generations %v", g)
	}
}

func TestASuccessorLearns(t *testing.T) {
	o := open(t, 10, read)
	for i := range byte(5) {
		o.decide(t, request("a", i))
	}
	o.Recall(request("a", 0)) // and so it is the latest
	recent := o.Recent(3)
	if len(recent) != 3 || recent[0].Key != (sqltoken.Key{3}) || recent[2].Key != (sqltoken.Key{0}) {
		t.Fatalf("recent: %+v", recent)
	}
	next := open(t, 10, read)
	for _, k := range recent {
		next.Learn(k)
	}
	next.wantKnown(t, "a", 3, true)
	next.wantKnown(t, "a", 1, false)

	// A flush between the snapshot and its arrival.
	next.Flush("a")
	next.Learn(recent[0])
	next.wantKnown(t, "a", 3, false)
	// A snapshot that knows of a flush that is still on its way.
	generation := o.Flush("a") + 1<<40
	next.decide(t, request("a", 4))
	next.Learn(Known{"a", sqltoken.Key{9}, verdict.Verdict{Generation: generation}})
	next.wantKnown(t, "a", 9, true)
	next.wantKnown(t, "a", 4, false)
}

// The metric and the README tell how much memory a full cache takes.
func TestTheCacheIsBoundedAndItsEstimateRight(t *testing.T) {
	const size = 20_000
	o := open(t, size, read)
	o.opts.Announce = func(string, sqltoken.Key, verdict.Verdict, About) {}
	before := heap()
	fill := func(round uint32) uint64 {
		for i := range uint32(size) {
			n := round*size + i
			o.decide(t, &verdict.Request{Database: "app", Text: "text",
				Key: sqltoken.Key{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}})
		}
		return heap() - before
	}
	first := fill(0)
	n, bytes := o.cache.size()
	estimate := uint64(bytes)
	if n != size || first > 2*estimate || estimate > 2*first {
		t.Fatalf("%d verdicts use %d bytes, estimated %d", n, first, estimate)
	}
	var last uint64
	for round := range uint32(9) {
		last = fill(round + 1)
	}
	if last > first+first/2 {
		t.Fatalf("memory grew from %d to %d bytes over %d distinct statements", first, last, 10*size)
	}
	runtime.KeepAlive(o)
}

// A client can send any number of strings with more to tell than others.
func TestDetailsAreBounded(t *testing.T) {
	const size = 1000
	o := open(t, size, func(string) judge.Opinion {
		return judge.Opinion{Verdict: verdict.Verdict{Detail: &verdict.Detail{Parts: make([]verdict.Part, 200)}}}
	})
	o.opts.Announce = func(string, sqltoken.Key, verdict.Verdict, About) {}
	before := heap()
	for n := range 5 * size {
		o.decide(t, &verdict.Request{Database: "app", Text: "text", Key: sqltoken.Key{byte(n), byte(n >> 8)}})
	}
	used := int(heap() - before)
	n, bytes := o.cache.size()
	if most := size * (entryBytes + verdict.DetailRoom); n == 0 || used > 2*most || used > 2*bytes || bytes > 2*used {
		t.Errorf("%d verdicts use %d bytes, estimated %d; %d are what they may", n, used, bytes, most)
	}
	runtime.KeepAlive(o)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
