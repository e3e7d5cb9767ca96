package cache

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

func key(i int) sqltoken.Key { return sqltoken.Key{byte(i), byte(i >> 8), byte(i >> 16)} }

func TestBoundedAndKeepsWhatIsUsed(t *testing.T) {
	c := New(100)
	hot := verdict.Verdict{Kind: verdict.Read, Fingerprint: 7}
	c.Put("a", key(0), hot)
	for i := 1; i < 1000; i++ {
		c.Put("a", key(i), verdict.Verdict{})
		if v, ok := c.Get(key(0), 0); !ok || v != hot {
			t.Fatalf("after %d others the verdict in use is %+v, %v", i, v, ok)
		}
		if c.Len() > 101 {
			t.Fatalf("%d verdicts kept, want about 100", c.Len())
		}
	}
	if _, ok := c.Get(key(1), 0); ok {
		t.Fatal("a verdict unused for long must make room")
	}
}

func TestAFlushEndsTheVerdictsOfItsDatabase(t *testing.T) {
	c := New(100)
	c.Put("a", key(1), verdict.Verdict{Kind: verdict.Read})
	c.Put("b", key(2), verdict.Verdict{Kind: verdict.Read})
	if !c.Flush("a", 10) || c.Flush("a", 10) || c.Flush("a", 9) {
		t.Fatal("a flush is news once")
	}
	want := func(database string, k int, found bool) {
		t.Helper()
		if _, ok := c.Get(key(k), c.Generation(database)); ok != found {
			t.Fatalf("verdict %d of %s: found %v, want %v", k, database, ok, found)
		}
	}
	want("a", 1, false)
	want("b", 2, true)
	// One that was judged before the flush and comes after it.
	c.Put("a", key(1), verdict.Verdict{Kind: verdict.Read, Generation: 9})
	want("a", 1, false)
	c.Put("a", key(1), verdict.Verdict{Kind: verdict.Read, Generation: 10})
	want("a", 1, true)
	// One of a flush that is yet to be heard of, and then its flush.
	c.Put("a", key(1), verdict.Verdict{Kind: verdict.Read, Generation: 11})
	want("a", 1, true)
	c.Flush("a", 11)
	want("a", 1, true)
	c.Flush("a", 12)
	want("a", 1, false)
}

func TestPassingVerdictsAreNotKept(t *testing.T) {
	c := New(100)
	c.Put("a", key(1), verdict.Verdict{Passing: true})
	if _, ok := c.Get(key(1), 0); ok || c.Len() != 0 {
		t.Fatal("a passing verdict is kept")
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	c := New(100)
	c.Put("a", key(1), verdict.Verdict{})
	if n := testing.AllocsPerRun(100, func() { c.Get(key(1), 0) }); n != 0 {
		t.Fatalf("%v allocations per hit, want none", n)
	}
}

// Against a map, with keys that meet in one place of the table.
func TestTableIsAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var tab table
	want := map[sqltoken.Key]verdict.Verdict{}
	random := func() (k sqltoken.Key) {
		k[0], k[9] = byte(rng.IntN(8)), byte(rng.IntN(200))
		k[1] = byte(rng.IntN(2)) * 255
		return k
	}
	for i := range 5000 {
		k, v := random(), verdict.Verdict{Fingerprint: uint64(i)}
		tab.put(k, v)
		want[k] = v
		k = random()
		v, ok := want[k]
		if got := tab.get(&k); (got != nil) != ok || ok && *got != v {
			t.Fatalf("after %d: got %v, want %v, %v", i, got, v, ok)
		}
		if tab.n != len(want) || 4*tab.n > 3*len(tab.slots) {
			t.Fatalf("after %d: %d verdicts in %d slots, want %d", i, tab.n, len(tab.slots), len(want))
		}
	}
}

func TestBytesIsAboutRight(t *testing.T) {
	for _, n := range []int{5_000, 20_000, 100_000} {
		c := New(2 * n)
		before := heap()
		for i := range n {
			c.Put("a", key(i), verdict.Verdict{})
		}
		used := int(heap() - before)
		if c.Len() != n || c.Bytes() > 2*used || used > 2*c.Bytes() {
			t.Errorf("%d verdicts use %d bytes, estimated %d", c.Len(), used, c.Bytes())
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkHit(b *testing.B) {
	c := New(20_000)
	for i := range 1000 {
		c.Put("a", key(i), verdict.Verdict{})
	}
	i := 0
	for b.Loop() {
		c.Get(key(i), 0)
		if i++; i == 1000 {
			i = 0
		}
	}
}

// A client can send any number of strings with more to tell than others.
func TestDetailsAreBounded(t *testing.T) {
	const size = 1000
	c := New(size)
	hot := verdict.Verdict{Kind: verdict.Read, Fingerprint: 7}
	c.Put("a", key(0), hot)
	before := heap()
	for i := 1; i < 10*size; i++ {
		c.Put("a", key(i), verdict.Verdict{Detail: &verdict.Detail{Parts: make([]verdict.Part, 100)}})
		if v, ok := c.Get(key(0), 0); !ok || v != hot {
			t.Fatalf("after %d others the verdict in use is %+v, %v", i, v, ok)
		}
	}
	used, most := int(heap()-before), size*(slotSize*8/3+verdict.DetailRoom)
	if used > 2*most || used > 2*c.Bytes() || c.Bytes() > 2*used {
		t.Errorf("%d verdicts use %d bytes, estimated %d; %d are what they may", c.Len(), used, c.Bytes(), most)
	}
}
