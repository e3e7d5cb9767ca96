package matrix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

// Case is one thing that is asked of several targets.
type Case struct {
	Workload string            `json:"workload"`
	Protocol workload.Protocol `json:"protocol"`
	// Clients run the workload, Idle more are connected.
	Clients int `json:"clients"`
	Idle    int `json:"idle,omitempty"`
	// Rate is the transactions per second of all clients; 0 is as many as possible.
	Rate float64 `json:"rate,omitempty"`
	// Fresh starts the target anew, so that its memory says what this case needs.
	Fresh bool `json:"fresh,omitempty"`
	// Measure replaces the plan's, if it is not zero.
	Measure time.Duration `json:"measure,omitempty"`
	// Rounds is how many of the plan's rounds have the case, spread evenly; 0 is all.
	Rounds int `json:"rounds,omitempty"`
	// Targets are the names of those that are compared.
	Targets []string `json:"targets"`
	// Guests are further ones, compared in GuestRounds of the rounds only.
	Guests []string `json:"guests,omitempty"`
	// GuestRounds is for Guests what Rounds is for the case.
	GuestRounds int `json:"guest_rounds,omitempty"`
}

// Compared are the names of all targets, guests included.
func (c Case) Compared() []string { return slices.Concat(c.Targets, c.Guests) }

// in gives the targets of the case in a round of so many, none if that does not have it.
func (c Case) in(round, of int) []string {
	switch {
	case !spread(c.Rounds, round, of):
		return nil
	case spread(c.GuestRounds, round, of):
		return c.Compared()
	}
	return c.Targets
}

// spread reports whether a round is one of n that are spread evenly over all; of 0, each
// is.
func spread(n, round, of int) bool {
	return n == 0 || n >= of || (round+1)*n/of > round*n/of
}

// Name identifies the case in a plan.
func (c Case) Name() string {
	name := fmt.Sprintf("%s/%s/%d", c.Workload, c.Protocol, c.Clients)
	if c.Idle > 0 {
		name += fmt.Sprintf("+%d", c.Idle)
	}
	if c.Rate > 0 {
		name += fmt.Sprintf("@%g", c.Rate)
	}
	return name
}

// Plan is a whole matrix.
type Plan struct {
	Name   string `json:"name"`
	Rounds int    `json:"rounds"`
	// Warmup runs before Measure, for each target of each case of each round.
	Warmup  time.Duration `json:"warmup"`
	Measure time.Duration `json:"measure"`
	// Scale is how many hundred thousand accounts there are, Connections how many
	// connections to servers a target may have.
	Scale       int    `json:"scale"`
	Connections int    `json:"connections"`
	Cases       []Case `json:"cases"`
}

// Group is one case of one round: all its targets, measured one right after the other.
// What is paired is in one group.
type Group struct {
	Round int
	Case  Case
	// Targets are the case's in this round's order.
	Targets []string
	// Seed decides the random choices of clients, the same for all targets.
	Seed uint64
}

// Groups lists all groups in the order in which they run.
func (p Plan) Groups() []Group {
	var out []Group
	for round := range p.Rounds {
		random := rand.New(rand.NewPCG(uint64(round), 1))
		for _, i := range random.Perm(len(p.Cases)) {
			c := p.Cases[i]
			targets := c.in(round, p.Rounds)
			if len(targets) == 0 {
				continue
			}
			g := Group{Round: round, Case: c, Seed: random.Uint64()}
			for _, t := range random.Perm(len(targets)) {
				g.Targets = append(g.Targets, targets[t])
			}
			out = append(out, g)
		}
	}
	return out
}

// MeasureOf is how long a case is measured.
func (p Plan) MeasureOf(c Case) time.Duration {
	if c.Measure > 0 {
		return c.Measure
	}
	return p.Measure
}
