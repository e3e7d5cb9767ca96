package fence

// Group gathers those who wait for a probe. A probe serves everyone who joined
// before it started; who joins while it is under way waits for the next one.
type Group[T any] struct {
	waiting []T
	served  []T
	flying  bool
}

// Join waits for the next probe to start, and reports whether one should be
// started now.
func (g *Group[T]) Join(t T) (start bool) {
	g.waiting = append(g.waiting, t)
	return !g.flying
}

// Waiting is how many wait for a probe that has not started.
func (g *Group[T]) Waiting() int { return len(g.waiting) }

// Flying reports that a probe is under way.
func (g *Group[T]) Flying() bool { return g.flying }

// Start notes that a probe starts at this moment; it serves all who wait.
func (g *Group[T]) Start() {
	g.flying = true
	g.waiting, g.served = g.served[:0], g.waiting
}

// Done notes that the probe has ended and gives those it served. The slice is
// valid until the next Start.
func (g *Group[T]) Done() []T {
	g.flying = false
	return g.served
}

// Fail notes that the probe has ended without a result: those it was to serve
// wait for the next one, before those who came later.
func (g *Group[T]) Fail() {
	g.flying = false
	g.waiting, g.served = append(g.served, g.waiting...), nil
}
