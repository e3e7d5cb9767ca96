package route

import "math/bits"

// choose takes one of the replicas that are able to serve the read.
func choose(t *Table, r *Request, able Set) int {
	if able&(able-1) == 0 {
		return bits.TrailingZeros64(uint64(able))
	}
	switch r.Policy {
	case RoundRobin:
		return inTurn(t, able, r.Turn)
	case Scored:
		return scored(t, r, able)
	}
	return least(t, able, r.Turn)
}

// spread is the golden ratio of 32 bits: the fractional parts of its multiples
// fill the unit interval evenly from the first few on, so that a replica with three
// times the share gets three of any four reads and not three hundred in a row.
const spread = 0x9E3779B9

// inTurn gives every replica its share of the turns.
func inTurn(t *Table, able Set, turn uint32) int {
	var sum float32
	even := true
	first := &t.Backends[bits.TrailingZeros64(uint64(able))]
	for s := able; s != 0; s &= s - 1 {
		b := &t.Backends[bits.TrailingZeros64(uint64(s))]
		sum += b.Share
		even = even && b.Share == first.Share
	}
	if even {
		return nth(able, int(turn%uint32(bits.OnesCount64(uint64(able)))))
	}
	at := float32(turn*spread) / (1 << 32) * sum
	last := 0
	for s := able; s != 0; s &= s - 1 {
		last = bits.TrailingZeros64(uint64(s))
		if at -= t.Backends[last].Share; at < 0 {
			break
		}
	}
	return last
}

// least gives the replica with the least load for its share. It starts its search
// at another place each turn, so that equals take turns.
func least(t *Table, able Set, turn uint32) int {
	best := nth(able, int(turn%uint32(bits.OnesCount64(uint64(able)))))
	lowest := t.Backends[best].pressure()
	for s := able; s != 0; s &= s - 1 {
		i := bits.TrailingZeros64(uint64(s))
		if p := t.Backends[i].pressure(); p < lowest {
			best, lowest = i, p
		}
	}
	return best
}

// noise is the part of a score that says nothing: replicas that differ by less take
// turns.
const noise = 0.1

// explorers is how many decisions there are to one that may try a busy replica
// again because what is known of it has faded: one statement is enough to find out,
// and until its answer is there the others go by what was known.
const explorers = 16

// scored gives the replica where the statement is expected to be answered first.
func scored(t *Table, r *Request, able Set) int {
	at := t.Costs.find(r.Shape)
	score := func(i int) float32 {
		b := &t.Backends[i]
		fading := b.InFlight == 0 || r.Turn%explorers == 0
		return b.pressure()*t.Costs.estimate(at, i, r.Now, fading) + penalty(b)
	}
	best := nth(able, int(r.Turn%uint32(bits.OnesCount64(uint64(able)))))
	lowest := score(best)
	for s := able.without(best); s != 0; s &= s - 1 {
		i := bits.TrailingZeros64(uint64(s))
		if v := score(i); v < lowest*(1-noise) {
			best, lowest = i, v
		}
	}
	return best
}

// A replica that lags by more than freeLag, which is as close as lag is measured,
// counts as slower by a hundredth of what goes beyond: a read that somebody would
// call stale is worth a little time, but no replica is given up for it.
const (
	freeLag    = 2 // seconds
	perLag     = 0.01
	perSeconds = 1e-9
)

func penalty(b *Backend) float32 {
	return max(0, float32(b.Lag)*perSeconds-freeLag) * perLag
}

// pressure is how many statements there would be on the backend, for its share. With
// pool.mode session it is how many sessions: they are there to stay.
func (b *Backend) pressure() float32 { return float32(max(b.InFlight, b.Held)+1) / b.Share }

func (s Set) without(i int) Set { return s &^ (1 << uint(i)) }

func nth(s Set, n int) int {
	for ; n > 0; n-- {
		s &= s - 1
	}
	return bits.TrailingZeros64(uint64(s))
}
