package session

import (
	"bytes"
	"slices"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// What a client prepares with PREPARE is in named with what it prepares with Parse: to
// PostgreSQL their names are of one kind, and EXECUTE runs either. The text of an EXECUTE
// is not changed, so on servers these statements have the client's names (equip.go).
//
// PREPARE is not undone by ROLLBACK (PostgreSQL documentation, "PREPARE"): it counts as
// soon as the server has executed it.

// How much a session may have prepared with SQL without being bound to a connection.
const (
	maxPrepared     = 256
	maxPreparedText = 64 << 10
)

// sole gives what there is to tell of a text that is a single statement, if anything.
func sole(v *verdict.Verdict) *verdict.Part {
	if v.Detail == nil || len(v.Detail.Parts) != 1 {
		return &verdict.Part{}
	}
	return &v.Detail.Parts[0]
}

// prepares gives what a text prepares if that is all it does, nil for nothing.
func prepares(v *verdict.Verdict) *verdict.Prepare { return sole(v).Prepare }

// executesSQL gives what a text executes if that is all it does, nil for nothing.
func executesSQL(v *verdict.Verdict) *verdict.Execute { return sole(v).Execute }

// running gives the verdict on running what a PREPARE of this verdict prepares.
func running(v verdict.Verdict) verdict.Verdict {
	out := verdict.Unclassified()
	if p := prepares(&v); p != nil {
		out.Kind, out.Effects = p.Kind, p.Effects
	}
	out.Fingerprint, out.Generation, out.Passing = v.Fingerprint, v.Generation, v.Passing
	return out
}

// noTypes, twice, is in the place of the number of types, so that what is prepared with
// SQL is never taken for what comes with Parse.
const noTypes = 0xFF

// newPrepared makes the statement of a PREPARE with this text.
func newPrepared(name string, text []byte, parsing settings.Hash) *Statement {
	st := &Statement{}
	st.set(append(bytes.Clone(text), 0, noTypes, noTypes), len(text), nil, parsing)
	st.client, st.server, st.sql, st.raw = name, name, true, true
	return st
}

// follows gives the statement that the PREPARE at the head makes when it runs: none if the
// name is taken. It reports false if its statement can be on this connection only.
func (s *Session) follows(text []byte) (*Statement, bool) {
	p := prepares(&s.verdict)
	if p == nil {
		return nil, false
	}
	count, size := 1, len(text)
	for _, st := range s.named {
		if st.sql {
			count++
			size += st.text
		}
	}
	switch {
	case s.pins&pinState != 0, s.held[s.at].used:
		return nil, false // it is not known what is set
	case s.parsing != s.set.List().AtParse():
		return nil, false // what is set is so for this transaction only
	case count > maxPrepared, size > maxPreparedText, !s.legible(text):
		return nil, false
	case s.named[p.Name] != nil:
		return nil, true
	}
	st := newPrepared(p.Name, text, s.parsing)
	st.verdict, st.hint = running(s.verdict), s.hintsOf(text)
	return st, true
}

// newRaw makes a statement of which nothing is known but its name.
func newRaw(name string) *Statement {
	return &Statement{client: name, server: name, verdict: unlooked(), raw: true}
}

// names gives the names that a text prepares, in order: by its verdict, and where it has none
// as it says itself.
func (s *Session) names(text []byte, v *verdict.Verdict) (out []string) {
	switch {
	case v.Fingerprint == 0 && len(text) <= s.env.Settings().MaxText && s.legible(text):
		return namesIn(s.dialect().uses(text), toPrepare)
	case v.Detail == nil:
		return nil
	}
	for i := range v.Detail.Parts {
		if p := v.Detail.Parts[i].Prepare; p != nil {
			out = append(out, p.Name)
		}
	}
	return out
}

// ranPrepare notes that a PREPARE has run: the first that the Query has yet to be told of.
// One that is not followed is on the session's connection alone, also where the server was
// expected to refuse it.
func (s *Session) ranPrepare(of *owed) {
	if of.st == nil {
		name := of.more.prepares[0]
		s.astray()
		s.define(name, newRaw(name))
		return
	}
	s.define(of.st.client, of.st)
	s.sql = true
	s.held[s.at].statements.prepare(of.st.client, underName{of.st.id, origin{number: of.st.birth.own, current: true}})
	s.born(of.st)
}

// awaitsPrepare has a message wait that names a statement which a PREPARE in front of it gives
// its name to, if it succeeds.
func (s *Session) awaitsPrepare(typ byte, msg []byte, run *forwarding) bool {
	var name []byte
	ok := false
	switch typ {
	case wire.Parse:
		name, _, ok = cutString(msg[wire.HeaderSize:])
	case wire.Bind:
		_, name, _, ok = splitBind(msg)
	case wire.Describe, wire.Close:
		var kind byte
		kind, name, ok = splitTarget(msg)
		ok = ok && kind == 'S'
	}
	if !ok || !slices.ContainsFunc(s.owed.all(), func(o owed) bool {
		return o.preparesLater() && slices.Contains(o.more.prepares, string(name))
	}) {
		return false
	}
	s.awaitAnswers(run)
	return true
}

// resolve gives an EXECUTE at the head the verdict of the statement that it names (rule
// 25). It reports false if that has been asked for.
func (s *Session) resolve() bool {
	x := executesSQL(&s.verdict)
	s.executing = nil
	if x == nil {
		return true
	}
	st := s.named[x.Name]
	if st == nil || st.raw && !st.sql || st.local.kind != notLocal || s.held[PrimarySlot].used || s.pins&pinState != 0 {
		return true // it is not known what the connection has under that name
	}
	if s.outdated(st) && s.refreshed != st {
		text := st.body[:st.text]
		v, ok := s.env.Verdict(s, text)
		if !ok {
			s.refreshing, s.outer = st, s.verdict
			s.do(Action{Op: OpJudge, Data: text})
			s.enter(Judging)
			return false
		}
		s.refresh(st, v)
	}
	s.refreshed, s.executing = nil, st
	s.hint = s.hint.with(st.hint)
	s.verdict.Kind, s.verdict.Effects = x.Of(&verdict.Prepare{Kind: st.verdict.Kind, Effects: st.verdict.Effects})
	return true
}

// refresh gives a statement a verdict that holds.
func (s *Session) refresh(st *Statement, v verdict.Verdict) {
	if st.sql {
		st.verdict = running(v)
		return
	}
	st.verdict, st.cmds = v, s.commands(st.body[:st.text], v)
}

// refreshedBy takes the verdict that an EXECUTE waits for.
func (s *Session) refreshedBy(v verdict.Verdict) {
	s.refresh(s.refreshing, v)
	s.refreshed, s.refreshing = s.refreshing, nil
	s.verdict, s.known = s.outer, true
	s.enter(Idle)
}

// leaveSQL leaves what the client has prepared with SQL to the connection to which the
// session is bound from now on: it may be changed there without anybody knowing. That is all
// of it, unless a transaction had failed there when the statement came that binds.
func (s *Session) leaveSQL() {
	t := s.held[s.at].statements
	if !s.sql || t == nil || len(t.sql) == 0 {
		return
	}
	for _, st := range s.named {
		if st.sql && s.has(st) {
			delete(t.sql, st.client)
			*st = *newRaw(st.client)
		}
	}
}

// strays reports whether commands change what the client's statements mean that are
// prepared with SQL. Where they are prepared already they keep the types that their parameters had
// then; on another connection they would get others.
func (s *Session) strays(cmds []settings.Command) bool {
	if !settings.AtParse(cmds, s.set.List()) || !s.sql {
		return false
	}
	for _, st := range s.named {
		if st.sql {
			return true
		}
	}
	s.sql = false
	return false
}
