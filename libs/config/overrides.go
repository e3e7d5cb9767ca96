package config

import (
	"fmt"
	"slices"
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
		p.validateOverride(fmt.Sprintf("users[%d]", i), u.Fencing, u.Route, u.Freshness)
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
		p.validateOverride(path, d.Fencing, d.Route, d.Freshness)
	}
}

func (p *problems) validateOverride(path, fencing, route string, freshness Duration) {
	if fencing != "" {
		p.validateMode(join(path, "fencing"), fencing)
	}
	if route != "" {
		p.oneOf(join(path, "route"), route, RouteAuto, RoutePrimary, RouteReplica)
	}
	at := join(path, "freshness")
	p.notNegative(at, freshness, "for the configured limit")
	if freshness > maxFreshness {
		p.invalid(at, "%s is too long: write at most %s", freshness, maxFreshness)
	}
}

// validateMode checks the name of a fencing mode.
func (p *problems) validateMode(path, mode string) {
	if slices.Contains(laterModes(), mode) {
		p.invalid(path, "%q comes in a later version: this one has %s", mode, quotedList([]string{Strict, Relaxed}))
		return
	}
	p.oneOf(path, mode, Strict, Relaxed)
}
