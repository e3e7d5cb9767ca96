package pool

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

type conn struct{ Conn }

func (c *conn) Pooled() *Conn { return &c.Conn }

type testPool = Pool[*conn, int]

func made(startup string) *conn { return &conn{Conn{Startup: startup, Run: 1}} }

// connect does what the loop does for the next waiter, and gives who got it.
func connect(t *testing.T, p *testPool, c *conn) (who int, got bool) {
	t.Helper()
	if startup, ok := p.Connect(); !ok || startup != c.Startup {
		t.Fatalf("a connection with %q should be made; Connect gave %q, %v", c.Startup, startup, ok)
	}
	p.Connected(c.Startup)
	return p.Put(c, time.Time{})
}

func TestFirstWaiterFirst(t *testing.T) {
	p := &testPool{Max: 1}
	if _, ok := p.Take("a", settings.Hash{}); ok {
		t.Fatal("an empty pool gave a connection")
	}
	p.Wait(Waiter[int]{Startup: "a", For: 1})
	p.Wait(Waiter[int]{Startup: "a", For: 2})
	c := made("a")
	if who, got := connect(t, p, c); !got || who != 1 {
		t.Fatalf("the new connection went to %d, %v", who, got)
	}
	if _, ok := p.Connect(); ok {
		t.Fatal("the pool is full, nothing may be made")
	}
	if who, got := p.Put(c, time.Time{}); !got || who != 2 {
		t.Fatalf("the returned connection went to %d, %v", who, got)
	}
	if _, got := p.Put(c, time.Time{}); got {
		t.Fatal("nobody waits")
	}
	if got, ok := p.Take("a", settings.Hash{}); !ok || got != c {
		t.Fatal("the idle connection must be used again")
	}
}

// A client that asked for other startup parameters never gets the connection of
// one that did not.
func TestStartupParametersKeepConnectionsApart(t *testing.T) {
	p := &testPool{Max: 1}
	p.Wait(Waiter[int]{Startup: "a", For: 1})
	c := made("a")
	connect(t, p, c)
	p.Put(c, time.Time{})
	if _, ok := p.Take("b", settings.Hash{}); ok {
		t.Fatal("got another's connection")
	}
	p.Wait(Waiter[int]{Startup: "b", For: 2})
	if _, ok := p.Connect(); ok {
		t.Fatal("there is no room before the idle one is closed")
	}
	if oldest, ok := p.Oldest(); !ok || oldest != c {
		t.Fatalf("got %v, %v; want the idle one", oldest, ok)
	}
	if startup, ok := p.Connect(); !ok || startup != "b" {
		t.Fatalf("got %q, %v; want b made", startup, ok)
	}
	if p.Size() != 1 {
		t.Fatalf("size %d, want 1", p.Size())
	}
}

func TestAFailedConnectionLeavesOrEndsTheWait(t *testing.T) {
	p := &testPool{Max: 2}
	p.Wait(Waiter[int]{Startup: "a", For: 1})
	p.Wait(Waiter[int]{Startup: "b", For: 2})
	p.Connect()
	if gone := p.ConnectFailed("a", false); len(gone) != 0 || p.Waiters() != 2 {
		t.Fatalf("%v gave up, %d wait; want nobody and 2", gone, p.Waiters())
	}
	p.Connect()
	if gone := p.ConnectFailed("a", true); len(gone) != 1 || gone[0] != 1 || p.Waiters() != 1 {
		t.Fatalf("%v gave up, %d wait; want waiter 1 alone gone", gone, p.Waiters())
	}
	if !p.Withdraw(2) || p.Withdraw(2) {
		t.Fatal("a wait ends once")
	}
}

// A connection that was made for a waiter and is of no use leaves the waiter to be
// served by another.
func TestAMadeConnectionThatIsDroppedIsMadeAgain(t *testing.T) {
	p := &testPool{Max: 2}
	p.Wait(Waiter[int]{Startup: "a", For: 1})
	p.Connect()
	p.Connected("a")
	p.Drop()
	if startup, ok := p.Connect(); !ok || startup != "a" {
		t.Fatalf("nothing is made for the waiter any more: %q, %v", startup, ok)
	}
}

// Whatever happens in whatever order, the counts are those of the connections
// that exist, never above the maximum, and nobody waits while a fitting one idles.
func TestAccountIsExact(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var total Total
		p := &testPool{Max: 1 + r.IntN(4), Total: &total}
		kinds := []string{"a", "b"}
		var lent []*conn
		var making []string
		next := 0
		give := func(c *conn) {
			if _, given := p.Put(c, time.Time{}); given {
				lent = append(lent, c)
			}
		}
		for range 300 {
			switch k := kinds[r.IntN(2)]; r.IntN(9) {
			case 0, 1:
				if c, ok := p.Take(k, settings.Hash{}); ok {
					lent = append(lent, c)
				} else {
					next++
					p.Wait(Waiter[int]{Startup: k, For: next})
				}
			case 2:
				if s, ok := p.Connect(); ok {
					making = append(making, s)
				}
			case 3:
				if n := len(making); n > 0 {
					s := making[n-1]
					making = making[:n-1]
					if r.IntN(4) == 0 {
						p.ConnectFailed(s, r.IntN(2) == 0)
					} else {
						p.Connected(s)
						give(made(s))
					}
				}
			case 4:
				if n := len(lent); n > 0 {
					c := lent[n-1]
					lent = lent[:n-1]
					give(c)
				}
			case 5:
				if n := len(lent); n > 0 {
					lent = lent[:n-1]
					p.Drop()
				}
			case 6:
				p.Withdraw(r.IntN(next + 1))
			case 7:
				p.Oldest()
			case 8:
				switch n := len(p.idle); {
				case n > 0 && r.IntN(2) == 0:
					p.DropIdle(p.idle[r.IntN(n)])
				case n > 0:
					p.Expired(func(*conn) bool { return r.IntN(2) == 0 })
				}
			}
			idle, out, connecting := p.Counts()
			if total.Count() != p.Size() {
				t.Fatalf("seed %d: %d connections in total, %d in the only pool", seed, total.Count(), p.Size())
			}
			if out != len(lent) || connecting != len(making) || idle+out+connecting > p.Max {
				t.Fatalf("seed %d: account idle %d lent %d making %d of %d; really lent %d making %d", seed, idle, out, connecting, p.Max, len(lent), len(making))
			}
			for _, w := range p.waiters {
				for _, c := range p.idle {
					if w.Startup == c.Startup && connecting == 0 {
						t.Fatalf("seed %d: a waiter for %q waits beside an idle one", seed, w.Startup)
					}
				}
			}
		}
	}
}

// A session gets the connection on which least is to be set, and the one used most
// recently among those.
func TestSettingsRankConnections(t *testing.T) {
	mine, other := settings.Hash{1}, settings.Hash{2}
	p := &testPool{Max: 9}
	add := func(startup string, h settings.Hash) *conn {
		p.Wait(Waiter[int]{Startup: startup, For: 1})
		c := made(startup)
		c.Settings = h
		connect(t, p, c)
		p.Put(c, time.Time{})
		return c
	}
	plain, right, theirs := add("a", settings.Hash{}), add("a", mine), add("a", other)
	last := add("a", other)
	add("b", mine)
	marked := add("a", mine)
	marked.Marked = true
	if !p.Claim(right) || p.Claim(right) {
		t.Fatal("an idle connection can be claimed once")
	}
	p.Put(right, time.Time{})
	for i, want := range []*conn{right, plain, last, theirs, marked} {
		if got, ok := p.Take("a", mine); !ok || got != want {
			t.Fatalf("connection %d is not the one that suits best", i)
		}
	}
	if _, ok := p.Take("a", mine); ok {
		t.Fatal("a connection with other startup parameters was given")
	}
}

// The pool is asked after each statement whether a connection is wanted. In a steady
// state, with or without sessions that wait, that must not allocate.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, waiters := range map[string]int{"nobody waits": 0, "some wait": 3} {
		p := &testPool{Max: 1}
		p.Wait(Waiter[int]{Startup: "a", For: 0})
		c := made("a")
		if _, got := connect(t, p, c); !got {
			t.Fatal("the connection went to nobody")
		}
		for i := range waiters {
			p.Wait(Waiter[int]{Startup: "a", For: i})
		}
		now := time.Unix(1, 0)
		if n := testing.AllocsPerRun(100, func() {
			if who, given := p.Put(c, now); given {
				p.Wait(Waiter[int]{Startup: "a", For: who})
			} else if _, ok := p.Take("a", settings.Hash{}); !ok {
				t.Fatal("the connection is lost")
			}
			if _, ok := p.Connect(); ok {
				t.Fatal("a full pool wants a connection")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per statement, want none", name, n)
		}
	}
}

func TestWarm(t *testing.T) {
	p := &testPool{Max: 3}
	for i := range 2 {
		if !p.Warm("a", 2) {
			t.Fatalf("connection %d of two should be made", i+1)
		}
	}
	if p.Warm("a", 2) {
		t.Fatal("two are being made already")
	}
	p.Connected("a")
	if p.Put(made("a"), time.Time{}); p.Warm("a", 2) {
		t.Fatal("one is there and one is being made")
	}
	if _, ok := p.IdleSince(); !ok {
		t.Fatal("one is idle")
	}
	// Who comes meanwhile waits for the one that is being made.
	p.Wait(Waiter[int]{Startup: "a", For: 1})
	if p.Wants() {
		t.Fatal("one is being made for it")
	}
	if who, ok := p.Unserved(); ok {
		t.Fatalf("one is being made for %d", who)
	}
	p.Connected("a")
	if who, got := p.Put(made("a"), time.Time{}); !got || who != 1 {
		t.Fatalf("the new connection went to %d, %v", who, got)
	}
	p.Wait(Waiter[int]{Startup: "b", For: 2})
	p.Wait(Waiter[int]{Startup: "b", For: 3})
	if who, ok := p.Unserved(); !ok || who != 2 {
		t.Fatalf("%d, %v is first of those who wait in vain", who, ok)
	}
	if p.Warm("a", 3) {
		t.Fatal("who waits comes first")
	}
	if p = (&testPool{Max: 1}); !p.Warm("a", 5) || p.Warm("a", 5) {
		t.Fatal("no more than the pool may have")
	}
}

// A session that has lost a connection wants one that was begun later: not one that is
// there already and may be about to die as well. Others get those meanwhile.
func TestWhoHasLostAConnectionGetsANewerOne(t *testing.T) {
	then, now := time.Unix(1, 0), time.Unix(2, 0)
	p := &testPool{Max: 2}
	from := func(at time.Time) *conn {
		c := made("a")
		c.Made = at
		p.Warm("a", 2)
		p.Connected("a")
		return c
	}
	old, oldToo := from(then), from(then)
	p.Wait(Waiter[int]{Startup: "a", For: 1, Since: now})
	p.Wait(Waiter[int]{Startup: "a", For: 2})
	if !p.InTheWay(old, false) {
		t.Fatal("there is no room for the newer one")
	}
	if p.Max++; p.InTheWay(old, false) || !p.InTheWay(old, true) {
		t.Fatal("there is room here, but may be none on the server")
	}
	p.Max--
	p.Drop() // it is closed
	if startup, ok := p.Connect(); !ok || startup != "a" {
		t.Fatal("a newer one should be made")
	}
	if p.InTheWay(oldToo, false) {
		t.Fatal("a newer one is on its way")
	}
	if who, got := p.Put(oldToo, now); !got || who != 2 {
		t.Fatalf("the old connection went to %d, %v; want 2, who takes any", who, got)
	}
	if _, got := p.Put(oldToo, now); got {
		t.Fatal("the old connection was given to who wants a newer one")
	}
	p.Connected("a")
	if who, got := p.Put(&conn{Conn{Startup: "a", Made: now}}, now); !got || who != 1 {
		t.Fatalf("the newer connection went to %d, %v", who, got)
	}
}
