package engine

import (
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// shaping are the parameters that servers report to whoever logs in and that shape what
// their answers look like, and how statements are read ("Protocol Flow: Asynchronous
// Operations").
var shaping = []string{"DateStyle", "IntervalStyle", "TimeZone", "standard_conforming_strings"}

// alike gives the startup parameters of a connection to another server than the primary:
// with those of the login, the values that the primary reports to it. The server may be
// configured otherwise, and a client must not see by its answers where a read ran.
func (e *Engine) alike(l upstream.Login, startup []handoff.Parameter) []handoff.Parameter {
	for _, p := range e.greetings[l] {
		given := func(s handoff.Parameter) bool { return strings.EqualFold(s.Name, p.Name) }
		if slices.Contains(shaping, p.Name) && !slices.ContainsFunc(startup, given) {
			startup = append(startup, p)
		}
	}
	return startup
}
