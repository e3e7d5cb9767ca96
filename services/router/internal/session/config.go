package session

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// A SELECT that does nothing but call set_config is followed like SET. What it sets is
// in its constants or in the parameters that it is bound to, so that each execution is
// looked at by itself.

//
// Any other statement of which all that it sets ends with its transaction (set_config with the
// keyword TRUE, SET LOCAL) is looked at for the names: the values need not be known.

// configures reports whether a statement does nothing but call set_config, or sets nothing but
// until the end of its transaction.
func configures(v *verdict.Verdict) bool {
	return v.Detail != nil && len(v.Detail.Parts) == 1 && (len(v.Detail.Parts[0].Settings) > 0 || len(v.Detail.Parts[0].Locals) > 0)
}

// configured gives what one execution of such a statement does to settings, and its
// verdict. If that is nothing that is followed, the verdict says that something is left
// in the server session. bind is the statement's Bind, nil for a simple query; it counts
// as unknown if its end is missing.
func (s *Session) configured(text []byte, v verdict.Verdict, types, bind []byte) ([]settings.Command, verdict.Verdict) {
	once, changes := s.calls(text, &v, types, bind)
	if len(changes) > 0 && once.Effects == 0 {
		if c, ok := settings.Called(changes); ok {
			return []settings.Command{c}, once
		}
	}
	p := &v.Detail.Parts[0]
	if c, ok := s.locally(text, p, types, bind); ok {
		v.Effects = p.Rest
		return []settings.Command{c}, v
	}
	v.Effects |= verdict.Session
	isSeed := func(c verdict.Change) bool { return verdict.Seed(c.Name) }
	if slices.ContainsFunc(changes, isSeed) || s.legible(text) && slices.ContainsFunc(p.LocalNames(s.execution(text, types, bind)), verdict.Seed) {
		v.Effects |= verdict.Indelible
	}
	return nil, v
}

// locally gives what a statement does to settings that sets something until the end of its
// transaction, and whether that is all that it may leave.
func (s *Session) locally(text []byte, p *verdict.Part, types, bind []byte) (settings.Command, bool) {
	if len(p.Locals) == 0 || !s.legible(text) {
		return settings.Command{}, false
	}
	return settings.Locally(p.LocalNames(s.execution(text, types, bind)))
}

// calls gives the changes that one execution's calls make, and its verdict. There are
// none if they are not known.
func (s *Session) calls(text []byte, v *verdict.Verdict, types, bind []byte) (verdict.Verdict, []verdict.Change) {
	if !s.legible(text) {
		return *v, nil
	}
	return v.Evaluate(s.execution(text, types, bind))
}

// execution is one execution of a statement, as the verdict on it looks at it.
func (s *Session) execution(text, types, bind []byte) verdict.Execution {
	x := verdict.Execution{Text: text, ServerMajor: s.major()}
	if bind != nil {
		b := bound{s: s, types: types}
		b.read(bind)
		x.Param = b.param
	}
	return x
}

// refusedCall is the error of one execution of a statement that calls set_config for one of
// the router's parameters: a server takes that for an application's, and nothing would come
// of it. The arguments are as configured's.
func (s *Session) refusedCall(text []byte, v *verdict.Verdict, types, bind []byte) *Problem {
	if s.failing() {
		return nil
	}
	if configures(v) {
		_, changes := s.calls(text, v, types, bind)
		for i := range changes {
			if name := strings.ToLower(changes[i].Name); settings.IsOwn(name) {
				return calledOwn(name)
			}
		}
		if len(changes) == 0 && s.legible(text) {
			for _, name := range v.Detail.Parts[0].LocalNames(s.execution(text, types, bind)) {
				if settings.IsOwn(name) && !settings.BeginsWithSet(text) {
					return calledOwn(name)
				}
			}
		}
	}
	return s.refusedText(text, v)
}

// refusedText is the error of a text in which one is named by a constant, in one of its
// statements or as what an EXECUTE gives to what was prepared.
func (s *Session) refusedText(text []byte, v *verdict.Verdict) *Problem {
	if v.Kind == verdict.Read || len(text) > s.env.Settings().MaxText || !s.legible(text) {
		return nil
	}
	if name, ok := settings.CalledOwn(text); ok {
		return calledOwn(name)
	}
	x := executesSQL(v)
	if x == nil {
		return nil
	}
	if st := s.named[x.Name]; st != nil && st.local.kind == notLocal && len(st.body) > 0 {
		if name, ok := settings.ExecutedOwn(st.body[:st.text], text); ok {
			return calledOwn(name)
		}
	}
	return nil
}

func calledOwn(name string) *Problem {
	return &Problem{
		Code: "0A000", Message: "parameter " + quoted(name) + " cannot be set with set_config",
		Hint: "It is pgpilot's own. Send SET " + name + " = '...' instead, with the value in the text.",
	}
}

// callsOwn answers a simple query that is refused so, and reports whether it is one.
func (s *Session) callsOwn(msg []byte) bool {
	text, ok := wire.QueryText(msg)
	if !ok {
		return false
	}
	p := s.refusedCall(text, &s.verdict, nil, nil)
	if p != nil {
		s.answerOwn(&ownQuery{problem: p})
	}
	return p != nil
}

// queried gives what a simple query does to settings, with its verdict.
func (s *Session) queried(text []byte, v verdict.Verdict) ([]settings.Command, verdict.Verdict) {
	if configures(&v) && !settings.BeginsWithSet(text) {
		return s.configured(text, v, nil, nil)
	}
	cmds := s.commands(text, v)
	if configures(&v) && !settings.Known(cmds) {
		return s.configured(text, v, nil, nil)
	}
	return cmds, v
}

// bindings gives what a statement does to settings as the Bind has it, with its verdict.
func (s *Session) bindings(st *Statement, bind []byte) ([]settings.Command, verdict.Verdict) {
	v := s.lasting(st)
	if s.escapes {
		return nil, v
	}
	if configures(&v) && !s.outdated(st) && !settings.Known(st.cmds) {
		return s.configured(st.body[:st.text], v, st.body[st.text+1:], bind)
	}
	return st.cmds, v
}

// refusedBind is the error of a statement as the Bind has it; nil if it has none.
func (s *Session) refusedBind(st *Statement, bind []byte) *Problem {
	if st.raw || configures(&st.verdict) && s.outdated(st) {
		return nil
	}
	return s.refusedCall(st.body[:st.text], &st.verdict, st.body[st.text+1:], bind)
}

// major gives the server's release.
func (s *Session) major() int {
	for _, p := range s.shown {
		if p.Name != "server_version" {
			continue
		}
		n := len(p.Value)
		if i := bytes.IndexFunc([]byte(p.Value), func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			n = i
		}
		major, err := strconv.Atoi(p.Value[:n])
		if err == nil {
			return major
		}
	}
	return 0
}

// bound is the parameters of a Bind ("Message Formats").
type bound struct {
	s *Session
	// types is as in Parse: a count and that many oids.
	types  []byte
	values [][]byte
	isNull []bool
}

// read takes a Bind apart. Parameters that are not there are not known.
func (b *bound) read(msg []byte) {
	_, _, rest, ok := splitBind(msg)
	if !ok || len(rest) < 2 {
		return
	}
	n := 2 * int(binary.BigEndian.Uint16(rest))
	if len(rest) < 2+n+2 {
		return
	}
	count := int(binary.BigEndian.Uint16(rest[2+n:]))
	rest = rest[2+n+2:]
	for len(b.values) < count && len(rest) >= 4 {
		size := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if size < 0 {
			b.values, b.isNull = append(b.values, nil), append(b.isNull, true)
			continue
		}
		if int64(size) > int64(len(rest)) {
			return
		}
		b.values, b.isNull = append(b.values, rest[:size]), append(b.isNull, false)
		rest = rest[size:]
	}
}

// param gives the value of a parameter as verdict.Execution wants it.
func (b *bound) param(n int) (value []byte, null, ok bool) {
	if n > len(b.values) || !slices.Contains(plainTypes, b.oid(n)) {
		return nil, false, false
	}
	if b.isNull[n-1] {
		return nil, true, true
	}
	value = b.values[n-1]
	return value, false, b.s.legible(value) && bytes.IndexByte(value, 0) < 0 || len(value) == 1 && value[0] == 0
}

// plainTypes are the types whose values are the same in text and in binary format, or a
// boolean: not given, so that the server takes text or boolean, text, varchar, unknown
// and bool, or json (pg_type).
var plainTypes = []uint32{0, 25, 1043, 705, 16, 114}

// oid gives the type of a parameter as Parse has it; 0: not given.
func (b *bound) oid(n int) uint32 {
	if len(b.types) < 2+4*n || n > int(binary.BigEndian.Uint16(b.types)) {
		return 0
	}
	return binary.BigEndian.Uint32(b.types[2+4*(n-1):])
}

// awaitsBind reports whether all of a Bind must be there before it is forwarded: what it
// sets depends on it. One that is too long to wait for counts as unknown.
func (s *Session) awaitsBind(st *Statement, total, have int) bool {
	return have < total && total <= maxHeld && st != nil && configures(&st.verdict) && total > wire.HeaderSize
}
