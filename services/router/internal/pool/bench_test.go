package pool

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// BenchmarkLend lends a connection and takes it back: what a statement outside a
// transaction costs.
func BenchmarkLend(b *testing.B) {
	p := &testPool{Max: 8}
	for range p.Max {
		p.Wait(Waiter[int]{For: 1})
		if _, ok := p.Connect(); !ok {
			b.Fatal("no connection is wanted")
		}
		p.Connected("")
		c := made("")
		p.Withdraw(1)
		p.Put(c, time.Time{})
	}
	now := time.Unix(1, 0)
	b.ReportAllocs()
	for b.Loop() {
		c, ok := p.Take("", settings.Hash{})
		if !ok {
			b.Fatal("the pool is empty")
		}
		p.Put(c, now)
	}
}

// BenchmarkLendToWaiter gives a connection that comes back to the one who waits
// longest, of as many as there are clients beyond the pool.
func BenchmarkLendToWaiter(b *testing.B) {
	p := &testPool{Max: 1, lent: 1}
	c := made("")
	for i := range 16 {
		p.Wait(Waiter[int]{For: i})
	}
	b.ReportAllocs()
	for b.Loop() {
		who, given := p.Put(c, time.Time{})
		if !given {
			b.Fatal("nobody waited")
		}
		p.Wait(Waiter[int]{For: who})
	}
}
