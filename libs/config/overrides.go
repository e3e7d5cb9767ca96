package config

import (
	"fmt"
	"time"
)

// Routes of reads.
const (
	// RouteAuto is a replica that may serve the read, otherwise the primary.
	RouteAuto = "auto"
	// RoutePrimary is the primary.
	RoutePrimary = "primary"
	// RouteReplica is as RouteAuto, also where a wider place says RoutePrimary.
	RouteReplica = "replica"
)

// Database is what holds for the sessions of one database, unless their user or they
// themselves say otherwise.
type Database struct {
	Name string `json:"name"`
	// Fencing is a mode as in Fencing.Mode, Route where reads go and Freshness how old an
	// answer may be. Empty, or 0: as for all.
	Fencing   string   `json:"fencing"`
	Route     string   `json:"route"`
	Freshness Duration `json:"freshness"`
}

// maxFreshness is the longest freshness that a session can ask for, too.
const maxFreshness = Duration(24 * time.Hour)

// validateOverrides checks what users and databases say for their sessions.
func (p *problems) validateOverrides(c *Config) {
	for i, u := range c.Users {
		p.validateOverride(c, fmt.Sprintf("users[%d]", i), u.Fencing, u.Route, u.Freshness)
	}
	seen := map[string]int{}
	for i, d := range c.Databases {
		path := fmt.Sprintf("databases[%d]", i)
		first, taken := seen[d.Name]
		switch {
		case d.Name == "":
			p.invalid(p.deepest(path, "name"), "give the database's name")
		case taken:
			p.invalid(p.deepest(path, "name"), "%q is already databases[%d]: keep one of them", d.Name, first)
		default:
			seen[d.Name] = i
		}
		p.validateOverride(c, path, d.Fencing, d.Route, d.Freshness)
	}
}

func (p *problems) validateOverride(c *Config, path, fencing, route string, freshness Duration) {
	if fencing != "" {
		p.validateMode(join(path, "fencing"), fencing)
		if freshness == 0 {
			p.validateBound(c, fencing)
		}
	}
	if route != "" {
		p.oneOf(join(path, "route"), route, RouteAuto, RoutePrimary, RouteReplica)
	}
	at := join(path, "freshness")
	p.notNegative(at, freshness, "for the configured limit")
	switch interval := c.Health.Interval; {
	case freshness > maxFreshness:
		p.invalid(at, "%s is too long: write at most %s", freshness, maxFreshness)
	case freshness > 0 && freshness < interval:
		p.invalid(at, "nothing is known of times shorter than between two polls, so all reads would go to the primary: write at least %s, or lower health.interval", interval)
	}
}

// validateBound checks that the mode bounded has a bound, and one that can be kept.
func (p *problems) validateBound(c *Config, mode string) {
	const path = "fencing.bounded_ms"
	switch interval, bound := c.Health.Interval, c.bound(); {
	case mode != Bounded:
	case bound == 0:
		p.invalid(path, "the mode \"bounded\" needs a bound: write how old, in milliseconds, a read may be")
	case bound < interval.D():
		p.invalid(path, "nothing is known of times shorter than between two polls: write at least %d, or lower health.interval (%s)", interval.D().Milliseconds(), interval)
	}
}

// validateMode checks the name of a fencing mode.
func (p *problems) validateMode(path, mode string) {
	p.oneOf(path, mode, Strict, Relaxed, Bounded, Causal, Linear)
}

// bound is fencing.bounded_ms.
func (c *Config) bound() time.Duration {
	return time.Duration(c.Fencing.BoundedMS) * time.Millisecond
}
