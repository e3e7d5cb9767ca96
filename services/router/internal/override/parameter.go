package override

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/services/router/internal/fence"
)

// Prefix begins the names of the router's parameters.
const Prefix = "pgpilot."

// The parameters that can be set.
const (
	RouteName     = Prefix + "route"
	FencingName   = Prefix + "fencing"
	FreshnessName = Prefix + "freshness"
	// FenceName is a token, which is not kept: it raises the session's fence.
	FenceName = Prefix + "fence"
)

// Those that can only be shown.
const (
	LastRouteName = Prefix + "last_route"
	SessionName   = Prefix + "session"
)

// Names lists all of them.
func Names() []string {
	return []string{FenceName, FencingName, FreshnessName, LastRouteName, RouteName, SessionName}
}

// Known reports whether there is such a parameter.
func Known(name string) bool { return slices.Contains(Names(), name) }

// Problem is why a parameter has not the value that was asked for, in PostgreSQL's
// terms ("PostgreSQL Error Codes").
type Problem struct {
	Code, Message, Hint string
}

// Error implements error.
func (p *Problem) Error() string { return p.Message + ": " + p.Hint }

// Unknown is the problem of a name that no parameter has.
func Unknown(name string) *Problem {
	return &Problem{
		Code:    "42704",
		Message: fmt.Sprintf("unrecognized configuration parameter %q", name),
		Hint:    "pgpilot's parameters are " + strings.Join(Names(), ", ") + ".",
	}
}

// Check reports whether a parameter can be set at all.
func Check(name string) *Problem {
	switch name {
	case RouteName, FencingName, FreshnessName, FenceName:
		return nil
	case LastRouteName, SessionName:
		return &Problem{
			Code:    "55P02",
			Message: fmt.Sprintf("parameter %q cannot be changed", name),
			Hint:    "It can be read, with SHOW " + name + ".",
		}
	}
	return Unknown(name)
}

// Parse adds to the set that the parameter has the value, and gives the value as it
// is written here.
func (s *Set) Parse(name, value string) (string, *Problem) {
	if p := Check(name); p != nil {
		return "", p
	}
	word := strings.ToLower(value) // servers compare the values of such parameters so
	switch name {
	case RouteName:
		i := slices.Index(routeNames[:], word)
		if i < 0 {
			return "", invalid(name, value, "Available values: "+strings.Join(routeNames[:], ", ")+".")
		}
		s.SetRoute(Route(i))
	case FencingName:
		m, ok := fence.ParseMode(word)
		if !ok {
			return "", invalid(name, value, "Available values: "+modes()+".")
		}
		s.SetMode(m)
	case FenceName:
		return "", &Problem{
			Code: "0A000", Message: fmt.Sprintf("parameter %q cannot be given at the start of a session", name),
			Hint: "Give the token with SET, once the session has begun.",
		}
	case FreshnessName:
		d, ok := parseDuration(value)
		if !ok {
			return "", invalid(name, value, `Give a time of at most a day, such as "250ms", "5s" or "1min", in milliseconds if it has no unit; "0" stands for the configured limit.`)
		}
		s.SetFreshness(d)
	}
	return s.values.Show(name), nil
}

func invalid(name, value, hint string) *Problem {
	return &Problem{Code: "22023", Message: fmt.Sprintf("invalid value for parameter %q: %q", name, value), Hint: hint}
}

// modes lists the fencing modes.
func modes() string {
	var names []string
	for m := fence.Relaxed; m <= fence.Linear; m++ {
		names = append(names, m.String())
	}
	return strings.Join(names, ", ")
}

// Show writes the value of a parameter that can be set.
func (v *Values) Show(name string) string {
	switch name {
	case RouteName:
		return v.Route.String()
	case FencingName:
		return v.Mode.String()
	case FreshnessName:
		return formatDuration(v.Freshness)
	}
	return ""
}
