package settings

import (
	"strconv"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// A server takes a parameter of the router's for an application's when set_config names it
// (PostgreSQL documentation, "System Administration Functions"): it says nothing, and
// nothing comes of it. So such a call is found wherever it stands in a text. What is itself
// in a string, as the body of a function is, is not looked at.

// CalledOwn gives the parameter of the router's that a call of set_config in the text names
// by a constant, the first if there are several. The text must be one that sqltoken reads as
// the server does.
func CalledOwn(text []byte) (name string, ok bool) {
	if !mentionsOwn(text) {
		return "", false
	}
	p := newParser(text)
	for p.statement() {
		for p.setConfig() {
			if name, ok := p.ownConstant(); ok {
				return name, true
			}
		}
	}
	return "", false
}

// ExecutedOwn gives the parameter of the router's that a call of set_config in a prepared
// statement names by one of its parameters, as an EXECUTE has them by constants.
func ExecutedOwn(prepared, execute []byte) (name string, ok bool) {
	if !mentionsOwn(execute) {
		return "", false
	}
	given := arguments(execute)
	p := newParser(prepared)
	for p.statement() {
		for p.setConfig() {
			if len(p.toks) == 0 || p.toks[0].Kind != sqltoken.Param {
				continue
			}
			n, err := strconv.Atoi(string(p.source(p.toks[0])[len("$"):]))
			if name, ok := given[n]; err == nil && ok {
				return name, true
			}
		}
	}
	return "", false
}

// arguments gives the parameters of the router's that the arguments of an EXECUTE are, by
// their numbers.
func arguments(execute []byte) map[int]string {
	p := newParser(execute)
	if !p.statement() || !p.word("execute") {
		return nil
	}
	if _, ok := p.identifier(); !ok || !p.symbol("(") {
		return nil
	}
	out := map[int]string{}
	for n, depth := 1, 0; len(p.toks) > 0; {
		if depth == 0 {
			if name, ok := p.ownConstant(); ok {
				out[n] = name
			}
		}
		if len(p.toks) == 0 {
			break
		}
		switch t := p.toks[0]; {
		case p.is(t, "("), p.is(t, "["):
			depth++
		case p.is(t, ")"), p.is(t, "]"):
			depth--
		case p.is(t, ",") && depth == 0:
			n++
		}
		p.toks = p.toks[1:]
	}
	return out
}

// setConfig moves to the first argument of the next call of set_config.
func (p *parser) setConfig() bool {
	for len(p.toks) > 0 {
		if name, ok := p.identifier(); !ok || name != "set_config" || !p.symbol("(") {
			continue
		}
		if p.peek("setting_name") && len(p.toks) > 1 {
			p.toks = p.toks[2:] // and => or :=
		}
		return true
	}
	return false
}

// ownConstant reads a string that is the name of a parameter of the router's, if that is
// next.
func (p *parser) ownConstant() (name string, ok bool) {
	if len(p.toks) == 0 || p.toks[0].Kind != sqltoken.String && p.toks[0].Kind != sqltoken.UnicodeString {
		return "", false
	}
	v, ok := p.value()
	name = lower(v)
	return name, ok && IsOwn(name)
}
