package contest

import "math/rand/v2"

// Workload is what arrives, and on what it runs.
type Workload struct {
	// Name is for people.
	Name string
	// About says in a sentence what it is.
	About string
	// arrivals is how many statements there are.
	arrivals int
	// rate is how many arrive in a second at a moment.
	rate   func(at float64) float64
	shapes []shape
	// replicas makes them anew.
	replicas func() []*replica
	// warm is the time before which nothing is measured, in seconds.
	warm float64
}

// shape is a kind of statement.
type shape struct {
	// often is its part of the arrivals; the parts sum up to 1.
	often float64
	// demand is the mean of its work, in seconds of a core. The work of one statement
	// is between half and one and a half of it.
	demand float64
}

func (w *Workload) draw(r *rand.Rand) (shape int, demand float64) {
	at := r.Float64()
	for shape = range w.shapes {
		if at -= w.shapes[shape].often; at < 0 {
			break
		}
	}
	return shape, w.shapes[shape].demand * (0.5 + r.Float64())
}

// Workloads gives the standard ones.
func Workloads() []Workload {
	const arrivals = 50_000
	light := []shape{{often: 1, demand: 0.001}}
	steady := func(rate float64) func(float64) float64 { return func(float64) float64 { return rate } }
	even := func(n int) func() []*replica {
		return func() []*replica {
			var rs []*replica
			for range n {
				rs = append(rs, &replica{cores: 2, speed: 1})
			}
			return rs
		}
	}
	return []Workload{
		{
			Name: "even load", About: "three equal replicas with two cores, busy to 70 %, statements of 1 ms",
			arrivals: arrivals, rate: steady(4200), shapes: light, replicas: even(3), warm: 1,
		},
		{
			Name: "one slow replica", About: "the same, but one of the three works at two fifths of the speed; round-robin keeps that one busy to 90 %",
			arrivals: arrivals, rate: steady(2160), shapes: light, warm: 1,
			replicas: func() []*replica {
				rs := even(3)()
				rs[2].speed = 0.4
				return rs
			},
		},
		{
			Name: "heavy shapes", About: "two of a hundred statements need 40 ms instead of 1 ms, and one replica needs six times that for them: their data is not in its memory",
			arrivals: arrivals, rate: steady(900), warm: 1,
			shapes: []shape{{often: 0.98, demand: 0.001}, {often: 0.02, demand: 0.040}},
			replicas: func() []*replica {
				rs := even(3)()
				rs[2].favours = []float64{1, 6}
				return rs
			},
		},
		{
			Name: "bursts", About: "three equal replicas; for 50 ms of each half second four times as many statements arrive, half as many again as all can serve",
			arrivals: arrivals, shapes: light, replicas: even(3), warm: 1,
			rate: func(at float64) float64 {
				if phase := at - 0.5*float64(int(at/0.5)); phase < 0.05 {
					return 9000
				}
				return 2250
			},
		},
		{
			Name: "a replica joins", About: "two replicas, busy to 90 %; after 10 s a third one joins, at half of the speed at first",
			arrivals: arrivals, rate: steady(3600), shapes: light, warm: 10,
			replicas: func() []*replica {
				rs := even(3)()
				rs[2].from, rs[2].speed = 10, 0.5
				return rs
			},
		},
	}
}
