package fence

// Group gathers those who wait for a probe. A probe serves everyone who joined
// before it started; who joins while it is under way waits for the next one.
//
// One who joins again before the next probe starts takes its own place: however
// much a session writes while no probe succeeds, it waits once, and with what it
// said last.
type Group[T any] struct {
	waiting []waiter[T]
	served  []waiter[T]
	out     []T
	// round numbers the lists of those who wait, from 1.
	round  uint64
	flying bool
}

type waiter[T any] struct {
	t     T
	place *Place
}

// Place is where one who may wait stands; it is kept beside whatever it waits for.
// The zero value waits for nothing.
type Place struct {
	round uint64
	at    int
}

// Join waits for the next probe to start, and reports whether one should be
// started now.
func (g *Group[T]) Join(t T, p *Place) (start bool) {
	if p.round == g.round+1 {
		g.waiting[p.at].t = t
		return !g.flying
	}
	g.add(waiter[T]{t, p})
	return !g.flying
}

func (g *Group[T]) add(w waiter[T]) {
	*w.place = Place{round: g.round + 1, at: len(g.waiting)}
	g.waiting = append(g.waiting, w)
}

// Waiting is how many wait for a probe that has not started.
func (g *Group[T]) Waiting() int { return len(g.waiting) }

// Flying reports that a probe is under way.
func (g *Group[T]) Flying() bool { return g.flying }

// Start notes that a probe starts at this moment; it serves all who wait.
func (g *Group[T]) Start() {
	g.flying = true
	g.round++
	clear(g.served)
	g.waiting, g.served = g.served[:0], g.waiting
}

// Done notes that the probe has ended and gives those it served. The slice is
// valid until the next Done.
func (g *Group[T]) Done() []T {
	g.flying = false
	clear(g.out)
	g.out = g.out[:0]
	for _, w := range g.served {
		g.out = append(g.out, w.t)
	}
	clear(g.served)
	g.served = g.served[:0]
	return g.out
}

// Fail notes that the probe has ended without a result: those it was to serve
// wait for the next one, but for those who have joined again meanwhile.
func (g *Group[T]) Fail() {
	g.flying = false
	for _, w := range g.served {
		if w.place.round != g.round+1 {
			g.add(w)
		}
	}
	clear(g.served)
	g.served = g.served[:0]
}
