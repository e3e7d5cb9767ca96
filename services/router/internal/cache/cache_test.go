package cache

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

func key(i int) sqltoken.Key { return sqltoken.Key{byte(i), byte(i >> 8)} }

func TestBoundedAndKeepsWhatIsUsed(t *testing.T) {
	c := New(100)
	hot := verdict.Verdict{Kind: verdict.Read, Fingerprint: 7}
	c.Put(key(0), hot)
	for i := 1; i < 1000; i++ {
		c.Put(key(i), verdict.Verdict{})
		if v, ok := c.Get(key(0)); !ok || v != hot {
			t.Fatalf("after %d others the verdict in use is %+v, %v", i, v, ok)
		}
		if c.Len() > 101 {
			t.Fatalf("%d verdicts kept, want about 100", c.Len())
		}
	}
	if _, ok := c.Get(key(1)); ok {
		t.Fatal("a verdict unused for long must make room")
	}
	c.Flush()
	if _, ok := c.Get(key(0)); ok || c.Len() != 0 {
		t.Fatal("still there after a flush")
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	c := New(100)
	c.Put(key(1), verdict.Verdict{})
	if n := testing.AllocsPerRun(100, func() { c.Get(key(1)) }); n != 0 {
		t.Fatalf("%v allocations per hit, want none", n)
	}
}
