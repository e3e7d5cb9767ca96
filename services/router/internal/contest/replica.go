package contest

// replica shares its cores evenly among the statements that run on it.
type replica struct {
	cores float64
	// speed is by how much its cores are faster than those that demands are given for.
	speed float64
	// favours are the factors of the demand of each shape here.
	favours []float64
	// from is when it joins, in seconds.
	from float64
	jobs []job
}

// job is a statement that runs.
type job struct {
	left    float64 // seconds of a core of speed 1
	arrived float64
	shape   int
}

// rate is how much of a job a replica does in a second.
func (r *replica) rate() float64 {
	if n := float64(len(r.jobs)); n > r.cores {
		return r.speed * r.cores / n
	}
	return r.speed
}

// next gives the job that ends first and in how many seconds; -1 for none.
func (r *replica) next() (job int, in float64) {
	job = -1
	for i := range r.jobs {
		if job < 0 || r.jobs[i].left < r.jobs[job].left {
			job = i
		}
	}
	if job >= 0 {
		in = max(0, r.jobs[job].left/r.rate())
	}
	return job, in
}

// run lets time pass.
func (r *replica) run(seconds float64) {
	done := seconds * r.rate()
	for i := range r.jobs {
		r.jobs[i].left -= done
	}
}

// end removes a job.
func (r *replica) end(i int) job {
	j := r.jobs[i]
	last := len(r.jobs) - 1
	r.jobs[i] = r.jobs[last]
	r.jobs = r.jobs[:last]
	return j
}
