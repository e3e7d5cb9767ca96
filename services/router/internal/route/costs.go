package route

import "time"

const (
	// shapes is how many shapes of statements are remembered. A new one takes the
	// place of the one unused for longest of the few that share its set.
	shapes = 4096
	ways   = 4

	// gain is the part of an average that a further sample makes up while samples
	// come in close succession.
	gain = 1. / 8
	// fade is the time in which knowledge of a replica that nobody uses loses three
	// quarters of its weight: after it has been slow it is tried again from time to time,
	// by one statement.
	fade = 4000 * time.Millisecond
	// wildest is how much slower or faster than a replica's pace a statement may be
	// without counting as an accident of that statement.
	wildest = 8
)

// Costs is what is known of how long statements take: for each shape its average
// time, for each backend its pace (its times as a multiple of the average), and for
// each shape on each backend the time there. What has not been observed for a while
// fades: the time of a shape on a backend into what its pace would make of it, a
// pace into 1.
//
// Its memory is bounded: it is all allocated by NewCosts. It belongs to the loop.
type Costs struct {
	known    []shape
	cells    []average // by place in known, then backend
	backends int
	pace     []average
}

// shape is one place; the zero value is free.
type shape struct {
	id   uint64
	mean float32 // seconds
	used uint32  // time in milliseconds
}

// average fades with the time since its last sample.
type average struct {
	value float32 // 0: there was no sample
	at    uint32  // time in milliseconds
}

// NewCosts knows nothing yet, of so many backends.
func NewCosts(backends int) *Costs {
	return &Costs{
		known: make([]shape, shapes), cells: make([]average, shapes*backends),
		backends: backends, pace: make([]average, backends),
	}
}

// Observe takes the time in seconds that a statement of the shape took on a
// backend; now is in milliseconds.
func (c *Costs) Observe(id uint64, backend int, took float32, now uint32) {
	if c == nil || id == 0 || took <= 0 {
		return
	}
	at := c.place(id, now)
	s := &c.known[at]
	s.used = now
	if s.mean == 0 {
		s.mean = took
	}
	ratio := took / s.mean
	s.mean += (took - s.mean) * gain
	p := &c.pace[backend]
	if p.value != 0 {
		ratio = min(max(ratio, p.value/wildest), p.value*wildest)
	}
	p.add(ratio, now)
	c.cells[at*c.backends+backend].add(took, now)
}

// Forget drops what is known of a backend: another server takes its place.
func (c *Costs) Forget(backend int) {
	c.pace[backend] = average{}
	for at := range c.known {
		c.cells[at*c.backends+backend] = average{}
	}
}

// nowhere is the place of a shape that is not known.
const nowhere = -1

// find gives the place of a shape.
func (c *Costs) find(id uint64) int {
	if c == nil || id == 0 {
		return nowhere
	}
	for at, end := set(id); at < end; at++ {
		if c.known[at].id == id {
			return at
		}
	}
	return nowhere
}

// place gives the place of a shape, making room for it.
func (c *Costs) place(id uint64, now uint32) int {
	at := c.find(id)
	if at != nowhere {
		return at
	}
	first, end := set(id)
	at = first
	for i := first; i < end; i++ {
		if c.known[i].id == 0 {
			at = i
			break
		}
		if now-c.known[i].used > now-c.known[at].used {
			at = i
		}
	}
	c.known[at] = shape{id: id}
	clear(c.cells[at*c.backends : (at+1)*c.backends])
	return at
}

// set gives the places where a shape may be.
func set(id uint64) (first, end int) {
	first = int(id*0x9E3779B97F4A7C15>>32) % (shapes / ways) * ways
	return first, first + ways
}

// estimate gives the time in seconds that the shape at a place may take on a
// backend: 1 second times the backend's pace where nothing is known of the shape.
// Without fading it is what was known when it was observed last.
func (c *Costs) estimate(at, backend int, now uint32, fading bool) float32 {
	if c == nil || backend >= c.backends {
		return 1
	}
	general := c.pace[backend].faded(1, now, fading)
	if at == nowhere {
		return general
	}
	return c.cells[at*c.backends+backend].faded(general*c.known[at].mean, now, fading)
}

// faded gives the average as it counts now; towards is what it fades into.
func (a *average) faded(towards float32, now uint32, fading bool) float32 {
	switch {
	case a.value == 0:
		return towards
	case !fading:
		return a.value
	}
	return towards + (a.value-towards)*a.weight(now)
}

// weight falls from 1 with the time since the last sample, slowly at first.
func (a *average) weight(now uint32) float32 {
	x := float32(now-a.at) / float32(fade/time.Millisecond)
	y := 1 + x*x
	return 1 / (y * y)
}

// add takes a sample. The more the average has faded, the less it counts.
func (a *average) add(sample float32, now uint32) {
	if a.value == 0 {
		a.value = sample
	} else {
		a.value += (sample - a.value) * (1 - (1-gain)*a.weight(now))
	}
	a.at = now
}
