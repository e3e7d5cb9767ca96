package session

import (
	"bytes"
	"slices"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// Shapes reports whether a parameter is one of those that servers report to whoever logs in
// and that shape what their answers look like, or how statements are read (PostgreSQL
// documentation, "Protocol Flow: Asynchronous Operations").
func Shapes(name string) bool {
	switch name {
	case "DateStyle", "IntervalStyle", "TimeZone", "standard_conforming_strings":
		return true
	}
	return false
}

// Reported is what a server has reported on a connection of the parameters that Shapes
// names, since it was made: the last value of each. The zero value is one that has reported
// nothing. A connection has it and lends it to the session with itself.
type Reported struct {
	values []handoff.Parameter
	// escapes says that backslashes escape in ordinary strings.
	escapes bool
}

// conforming is the parameter that says whether they do not (PostgreSQL documentation,
// "String Constants with C-Style Escapes").
const conforming = "standard_conforming_strings"

// escapes reports whether the value of a parameter says that backslashes escape in ordinary
// strings.
func escapes(name, value string) bool { return name == conforming && value != "on" }

// Began takes what was reported when the connection was made.
func (r *Reported) Began(params []handoff.Parameter) {
	for _, p := range params {
		r.escapes = r.escapes || escapes(p.Name, p.Value)
	}
}

// Since gives what has been reported since the connection was made, for whoever takes it over.
func (r *Reported) Since() []handoff.Parameter { return r.values }

// Arrived takes what a connection that comes from another router has reported: when it was
// made, and since.
func (r *Reported) Arrived(params, since []handoff.Parameter) {
	r.Began(params)
	for _, p := range since {
		r.take(p.Name, p.Value)
	}
}

// Note takes the body of a ParameterStatus message.
func (r *Reported) Note(body []byte) {
	name, rest, _ := bytes.Cut(body, []byte{0})
	value, ok := wire.CString(rest)
	if !ok || !Shapes(string(name)) {
		return
	}
	r.take(string(name), string(value))
}

func (r *Reported) take(name, value string) {
	if name == conforming {
		r.escapes = escapes(name, value)
	}
	for i := range r.values {
		if r.values[i].Name == name {
			r.values[i].Value = value
			return
		}
	}
	r.values = append(r.values, handoff.Parameter{Name: name, Value: value})
}

// Over gives what was reported when the connection was made with what has been since, and
// whether that differs; params is not changed. Where a session has left settings on the
// connection, only that is the server's own which no session leaves.
func (r *Reported) Over(params []handoff.Parameter, settings bool) (now []handoff.Parameter, differs bool) {
	now = params
	for _, v := range r.values {
		i := slices.IndexFunc(now, func(p handoff.Parameter) bool { return p.Name == v.Name })
		if i < 0 || now[i].Value == v.Value || settings && v.Name != conforming {
			continue
		}
		if !differs {
			now, differs = slices.Clone(now), true
		}
		now[i].Value = v.Value
	}
	return now, differs
}
