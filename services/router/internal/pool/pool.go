package pool

import (
	"maps"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// Key names a pool.
type Key struct {
	Backend  int
	User     string
	Database string
}

// Conn is a server connection as the pool needs to know it. The loop's own
// connection embeds it.
type Conn struct {
	// Startup are the encoded startup parameters it was made with.
	Startup string
	// Marked says that it must be reset before another session gets it than the last.
	Marked bool
	// Settings is what has been set on it since it was made.
	Settings settings.Hash
	// Run is the run of the server it belongs to.
	Run uint32
	// Made is when making it began, IdleSince when it came back.
	Made, IdleSince time.Time
}

// Waiter waits for a connection.
type Waiter[W any] struct {
	// Startup are the encoded startup parameters wanted.
	Startup string
	// For is whoever waits.
	For W
	// Since, if it is not zero, excludes connections that were begun before it.
	Since time.Time
}

// takes reports whether the connection is of the kind that is waited for.
func (w *Waiter[W]) takes(c *Conn) bool {
	return w.Startup == c.Startup && !c.Made.Before(w.Since)
}

// Member is a connection that a pool can hold.
type Member interface {
	comparable
	Pooled() *Conn
}

// Total counts the connections of several pools, those being made included.
type Total struct{ n int }

// Count is how many there are.
func (t *Total) Count() int { return t.n }

// Pool is the account of one Key. The zero value is an empty pool that allows
// nothing; set Max.
type Pool[C Member, W comparable] struct {
	// Max is the most connections it may have, those being made included.
	Max int
	// Total, if it is not nil, counts its connections with those of other pools. It is
	// set before there are any.
	Total *Total
	// idle, the most recently used last.
	idle []C
	// lent and connecting count the others; making has those being made by their
	// startup parameters.
	lent       int
	connecting int
	making     map[string]int
	waiters    []Waiter[W]
}

// Take gives an idle connection with these startup parameters, or ok false. One
// that has the settings wanted comes first, then one on which nothing has been set, and
// a marked one last; of equals, the most recently used.
func (p *Pool[C, W]) Take(startup string, want settings.Hash) (c C, ok bool) {
	best, rank := -1, 0
	for i := len(p.idle) - 1; i >= 0 && rank < 4; i-- {
		if r := p.idle[i].Pooled().suits(startup, want); r > rank {
			best, rank = i, r
		}
	}
	if best < 0 {
		return c, false
	}
	c = p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	p.lent++
	return c, true
}

// suits ranks a connection for a session: 0 if it cannot have it, 4 if it has
// everything that the session wants.
func (c *Conn) suits(startup string, want settings.Hash) int {
	switch {
	case c.Startup != startup:
		return 0
	case c.Marked:
		return 1
	case c.Settings == want:
		return 4
	case c.Settings == settings.Hash{}:
		return 3
	}
	return 2
}

// Claim takes this connection, if it is idle here.
func (p *Pool[C, W]) Claim(c C) bool {
	i := slices.Index(p.idle, c)
	if i < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	p.lent++
	return true
}

// Wait queues for a connection.
func (p *Pool[C, W]) Wait(w Waiter[W]) { p.waiters = append(p.waiters, w) }

// Withdraw ends a wait and reports whether there was one. A connection that is
// being made for it goes to the next.
func (p *Pool[C, W]) Withdraw(w W) bool {
	i := slices.IndexFunc(p.waiters, func(x Waiter[W]) bool { return x.For == w })
	if i < 0 {
		return false
	}
	p.waiters = slices.Delete(p.waiters, i, i+1)
	return true
}

// Connect says whether a connection should be made now, and with which startup
// parameters: more sessions wait for its like than are being made, and there is
// room. Where idle connections of other parameters take the room, the longest idle
// (Oldest) is to be closed first.
func (p *Pool[C, W]) Connect() (startup string, ok bool) {
	w := p.unserved()
	if w == nil || p.Size() >= p.Max {
		return "", false
	}
	p.begin(w.Startup)
	return w.Startup, true
}

// Warm says whether a connection with these startup parameters should be made
// although nobody waits for one, because the pool has fewer than it is to have.
func (p *Pool[C, W]) Warm(startup string, least int) bool {
	if p.Size() >= min(least, p.Max) || len(p.waiters) > 0 {
		return false
	}
	p.begin(startup)
	return true
}

func (p *Pool[C, W]) begin(startup string) {
	if p.making == nil {
		p.making = map[string]int{}
	}
	p.making[startup]++
	p.connecting++
	p.count(1)
}

// count keeps the total.
func (p *Pool[C, W]) count(more int) {
	if p.Total != nil {
		p.Total.n += more
	}
}

// unserved gives the first waiter for whom no connection is being made, nil for none.
func (p *Pool[C, W]) unserved() *Waiter[W] {
	switch { // asked after each statement: the usual answers cost nothing
	case len(p.waiters) == 0:
		return nil
	case len(p.making) == 0:
		return &p.waiters[0]
	}
	left := maps.Clone(p.making)
	for i := range p.waiters {
		w := &p.waiters[i]
		if left[w.Startup] == 0 {
			return w
		}
		left[w.Startup]--
	}
	return nil
}

// Connected takes a connection that has been made; it counts as lent until it is
// put back.
func (p *Pool[C, W]) Connected(startup string) {
	p.made(startup)
	p.lent++
}

// Adopt takes a connection that has been made elsewhere; it counts as lent until it is
// put back, whether there was room for it or not.
func (p *Pool[C, W]) Adopt() {
	p.lent++
	p.count(1)
}

// ConnectFailed notes that a connection could not be made. If those who wanted
// its like are to give up waiting, they are removed and given.
func (p *Pool[C, W]) ConnectFailed(startup string, giveUp bool) []W {
	p.made(startup)
	p.count(-1)
	if !giveUp {
		return nil
	}
	var out []W
	p.waiters = slices.DeleteFunc(p.waiters, func(w Waiter[W]) bool {
		if w.Startup != startup {
			return false
		}
		out = append(out, w.For)
		return true
	})
	return out
}

func (p *Pool[C, W]) made(startup string) {
	p.connecting--
	if p.making[startup]--; p.making[startup] == 0 {
		delete(p.making, startup)
	}
}

// Put brings a lent connection back. If somebody waits for its like, that one is
// given, and the connection is lent to it.
func (p *Pool[C, W]) Put(c C, now time.Time) (next W, given bool) {
	pc := c.Pooled()
	for i := range p.waiters {
		if w := &p.waiters[i]; w.takes(pc) {
			next = w.For
			p.waiters = slices.Delete(p.waiters, i, i+1)
			return next, true
		}
	}
	pc.IdleSince = now
	p.idle = append(p.idle, c)
	p.lent--
	return next, false
}

// InTheWay reports whether a lent connection takes the place of one that can only be
// made when it is gone: whoever has waited longest for its like wants a newer one, none
// is being made, and the pool is full, or full says that something else is.
func (p *Pool[C, W]) InTheWay(c C, full bool) bool {
	pc := c.Pooled()
	if len(p.waiters) == 0 || p.Size() < p.Max && !full || p.making[pc.Startup] > 0 {
		return false
	}
	for i := range p.waiters {
		if w := &p.waiters[i]; w.Startup == pc.Startup {
			return !w.takes(pc)
		}
	}
	return false
}

// Drop notes that a lent connection has been closed.
func (p *Pool[C, W]) Drop() {
	p.lent--
	p.count(-1)
}

// DropIdle removes an idle connection that has been closed, and reports whether
// it was one.
func (p *Pool[C, W]) DropIdle(c C) bool {
	i := slices.Index(p.idle, c)
	if i < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	p.count(-1)
	return true
}

// Expired removes and gives the idle connections for which old is true.
func (p *Pool[C, W]) Expired(old func(C) bool) []C {
	var out []C
	p.idle = slices.DeleteFunc(p.idle, func(c C) bool {
		if !old(c) {
			return false
		}
		out = append(out, c)
		return true
	})
	p.count(-len(out))
	return out
}

// Size is how many connections there are, those being made included.
func (p *Pool[C, W]) Size() int { return len(p.idle) + p.lent + p.connecting }

// Evacuate removes and gives all who wait.
func (p *Pool[C, W]) Evacuate() []W {
	out := make([]W, 0, len(p.waiters))
	for _, w := range p.waiters {
		out = append(out, w.For)
	}
	p.waiters = nil
	return out
}

// Waiters is how many wait.
func (p *Pool[C, W]) Waiters() int { return len(p.waiters) }

// Counts gives the number of idle, lent and unfinished connections.
func (p *Pool[C, W]) Counts() (idle, lent, connecting int) {
	return len(p.idle), p.lent, p.connecting
}

// IdleSince is since when the longest idle connection has been so; ok is false if
// there is none.
func (p *Pool[C, W]) IdleSince() (at time.Time, ok bool) {
	if len(p.idle) == 0 {
		return at, false
	}
	return p.idle[0].Pooled().IdleSince, true
}

// Wants reports whether somebody waits for whom no connection is being made.
func (p *Pool[C, W]) Wants() bool { return p.unserved() != nil }

// Unserved gives who waits first of those for whom no connection is being made; ok is
// false if there is nobody.
func (p *Pool[C, W]) Unserved() (w W, ok bool) {
	if first := p.unserved(); first != nil {
		return first.For, true
	}
	return w, false
}

// Oldest removes and gives the longest idle connection.
func (p *Pool[C, W]) Oldest() (c C, ok bool) {
	if len(p.idle) == 0 {
		return c, false
	}
	c = p.idle[0]
	p.idle = slices.Delete(p.idle, 0, 1)
	p.count(-1)
	return c, true
}
