package override

import (
	"time"

	"github.com/pgpilot/pgpilot/services/router/internal/fence"
)

// Route is where reads go. Writes go to the primary.
type Route uint8

// The routes.
const (
	// Auto: to a replica that may serve them, otherwise to the primary.
	Auto Route = iota
	// Primary: to the primary.
	Primary
	// Replica: as Auto. It undoes Primary where that is asked for further away.
	Replica
)

var routeNames = [...]string{"auto", "primary", "replica"}

// String gives the name used in the configuration and in SET pgpilot.route.
func (r Route) String() string { return routeNames[r] }

// Values are what holds for a statement.
type Values struct {
	Route Route
	Mode  fence.Mode
	// Freshness is how old an answer may be. 0: the configured limit.
	Freshness time.Duration
}

// Set is what one place asks for. The zero value asks for nothing.
type Set struct {
	values Values
	// route, mode and freshness say which of the values are asked for.
	route, mode, freshness bool
}

// IsZero reports whether it asks for nothing.
func (s *Set) IsZero() bool { return !s.route && !s.mode && !s.freshness }

// SetRoute asks for a route.
func (s *Set) SetRoute(r Route) { s.values.Route, s.route = r, true }

// SetMode asks for a fencing mode.
func (s *Set) SetMode(m fence.Mode) { s.values.Mode, s.mode = m, true }

// SetFreshness asks for a freshness.
func (s *Set) SetFreshness(d time.Duration) { s.values.Freshness, s.freshness = d, true }

// Routed reports whether it asks for a route.
func (s *Set) Routed() bool { return s.route }

// Both gives what satisfies two that are asked for in the same place: the primary
// rather than a replica, and the shorter time.
func (s *Set) Both(other Set) Set {
	both := *s
	if other.route && (!both.route || other.values.Route == Primary) {
		both.SetRoute(other.values.Route)
	}
	if other.mode && (!both.mode || other.values.Mode > both.values.Mode) {
		both.SetMode(other.values.Mode)
	}
	if f := other.values.Freshness; other.freshness && (!both.freshness || f > 0 && (both.values.Freshness == 0 || f < both.values.Freshness)) {
		both.SetFreshness(f)
	}
	return both
}

// Over gives the values with what a closer place asks for.
func (s *Set) Over(v Values) Values {
	if s.route {
		v.Route = s.values.Route
	}
	if s.mode {
		v.Mode = s.values.Mode
	}
	if s.freshness {
		v.Freshness = s.values.Freshness
	}
	return v
}
