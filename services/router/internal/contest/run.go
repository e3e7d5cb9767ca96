package contest

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// slowStart is how long a replica that joins gets less than its share, in seconds.
const slowStart = 10

// Result is the response times of one policy under one workload.
type Result struct {
	P50, P99, P999 time.Duration
}

// simulation is one run.
type simulation struct {
	w        *Workload
	replicas []*replica
	table    route.Table
	now      float64
	times    []float64
	request  route.Request
}

// Run lets a policy serve a workload. The same seed gives the same arrivals to every
// policy.
func Run(w Workload, p route.Policy, seed uint64) Result {
	s := &simulation{
		w: &w, replicas: w.replicas(),
		table:   route.Table{Primary: route.None},
		request: route.Request{Read: true, Policy: p},
	}
	s.table.Costs = route.NewCosts(len(s.replicas))
	for range s.replicas {
		s.table.Backends = append(s.table.Backends, route.Backend{Role: route.RoleReplica, Healthy: true, Fresh: true, Share: 1})
	}
	random := rand.New(rand.NewPCG(seed, seed))
	next := 0.
	for range w.arrivals {
		next += random.ExpFloat64() / w.rate(next)
		s.until(next)
		kind, demand := w.draw(random)
		s.arrive(kind, demand)
	}
	s.until(math.Inf(1))
	slices.Sort(s.times)
	return Result{P50: s.percentile(0.50), P99: s.percentile(0.99), P999: s.percentile(0.999)}
}

// until lets statements end up to a moment.
func (s *simulation) until(end float64) {
	for {
		first, ends, soonest := -1, -1, math.Inf(1)
		for i, r := range s.replicas {
			if j, in := r.next(); j >= 0 && in < soonest {
				first, ends, soonest = i, j, in
			}
		}
		if first < 0 || s.now+soonest > end {
			break
		}
		s.pass(soonest)
		s.finish(first, ends)
	}
	if !math.IsInf(end, 1) {
		s.pass(end - s.now)
	}
}

func (s *simulation) pass(seconds float64) {
	for _, r := range s.replicas {
		r.run(seconds)
	}
	s.now += seconds
}

// finish ends a statement.
func (s *simulation) finish(backend, i int) {
	j := s.replicas[backend].end(i)
	s.table.Backends[backend].InFlight--
	took := s.now - j.arrived
	s.table.Costs.Observe(id(j.shape), backend, float32(took), s.millis())
	if j.arrived >= s.w.warm {
		s.times = append(s.times, took)
	}
}

// arrive starts a statement where the policy says.
func (s *simulation) arrive(kind int, demand float64) {
	for i, r := range s.replicas {
		b := &s.table.Backends[i]
		b.Healthy = s.now >= r.from
		if r.from > 0 {
			b.Share = route.Ramp(time.Duration((s.now-r.from)*float64(time.Second)), slowStart*time.Second)
			r.speed = min(1, 0.5+0.5*max(0, s.now-r.from)/slowStart)
		}
	}
	s.request.Turn++
	s.request.Now, s.request.Shape = s.millis(), id(kind)
	at := route.Pick(&s.table, &s.request).Backend
	r := s.replicas[at]
	if r.favours != nil {
		demand *= r.favours[kind]
	}
	r.jobs = append(r.jobs, job{left: demand, arrived: s.now, shape: kind})
	s.table.Backends[at].InFlight++
}

// id is what the policy knows a shape by.
func id(kind int) uint64 { return uint64(kind) + 1 }

func (s *simulation) millis() uint32 { return uint32(s.now * 1000) }

func (s *simulation) percentile(p float64) time.Duration {
	i := min(len(s.times)-1, int(p*float64(len(s.times))))
	return time.Duration(s.times[i] * float64(time.Second)).Round(10 * time.Microsecond)
}
