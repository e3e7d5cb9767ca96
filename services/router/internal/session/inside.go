package session

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// A simple query in the middle of a sequence, behind messages without a Sync, runs in their
// implicit transaction and ends it. What is in it about the router's own parameters is
// executed here in its place; the server is sent what else there is, or an empty query, which
// ends the transaction as well, or, if that is an error, something that fails.

// queryInside forwards a simple query or a function call in the middle of a sequence. Nobody
// looks into what it does, but for the names of statements and the router's own parameters.
func (s *Session) queryInside(typ byte, total int, rest, all []byte, at int, run *forwarding) int {
	var us []use
	if typ == wire.Query {
		if len(rest) < total && total-wire.HeaderSize <= s.env.Settings().MaxText {
			return 0
		}
		msg := rest[:min(total, len(rest))]
		if text, ok := wire.QueryText(msg); ok && s.concernsOwn(text) {
			return s.ownInside(text, total, run)
		}
		if t := s.held[s.at].statements; len(s.named) > 0 || len(t.sql) > 0 || namesServers(typ, msg) {
			var waits bool
			if us, waits = s.supplyQuery(msg, run); waits {
				return 0
			}
		}
	}
	s.effects(unlooked(), nil, nil)
	n := s.take(total, rest)
	o := s.simple(typ)
	o.drops(namesIn(us, toDeallocate))
	o.prepares(namesIn(us, toPrepare))
	s.owed.sent(o)
	run.add(all, at, n)
	return n
}

// concernsOwn reports whether a text has to do with the router's own parameters.
func (s *Session) concernsOwn(text []byte) bool {
	if _, ok := settings.ParseOwn(text); ok {
		return true
	}
	_, own := settings.Part(text)
	return own != nil || s.callsInside(text) != nil
}

// callsInside is the error of a text that calls set_config for one of them.
func (s *Session) callsInside(text []byte) *Problem {
	v := unlooked()
	if p := s.refusedText(text, &v); p != nil || !s.legible(text) {
		return p
	}
	for _, name := range namesIn(s.dialect().uses(text), toExecute) {
		if st := s.named[name]; st != nil && st.local.kind == notLocal && len(st.body) > 0 {
			if own, ok := settings.ExecutedOwn(st.body[:st.text], text); ok {
				return calledOwn(own)
			}
		}
	}
	return nil
}

// ownInside executes such a query once what is in front of it has been answered: what it does
// depends on that.
func (s *Session) ownInside(text []byte, total int, run *forwarding) int {
	if s.emitMade(); !s.owed.empty() {
		s.awaitAnswers(run)
		return 0
	}
	if a := s.parts(text); a != nil {
		return s.amongInside(a, text, total, run)
	}
	os, _ := settings.ParseOwn(text)
	p := s.callsInside(text)
	if p == nil {
		p = s.checkInside(os)
	}
	a := &among{rest: []byte{}, warns: len(os) == 1 && s.warnsOfLocal(&local{kind: ownParameter, own: &os[0]}, s.owed.executed)}
	for _, o := range os {
		a.own = append(a.own, settings.Among{Own: o})
	}
	s.sendInside(a, p, run)
	return total
}

// checkInside gives the error of a query all of which is about the router's parameters. Of
// several statements none is executed then.
func (s *Session) checkInside(os []settings.Own) *Problem {
	for i := range os {
		if len(os) > 1 && os[i].Name == override.FencingName && os[i].Verb != settings.ShowOwn {
			return mixed(os[i].Name, "It may depend on the others. Send it by itself.")
		}
		if p := s.checkOwn(&os[i]); p != nil {
			return p
		}
	}
	return nil
}

// amongInside executes a query that has other statements, too.
func (s *Session) amongInside(a *among, text []byte, total int, run *forwarding) int {
	v, asked := verdict.Unclassified(), s.known
	if a.rest != nil {
		var ok bool
		if v, ok = s.verdictInside(a.rest); !ok {
			return 0
		}
	}
	s.verdict, s.among = v, a
	p := s.checkAmong(text)
	if s.among = nil; asked && s.interrupted { // nothing ran that could be canceled
		p = &canceled
	}
	s.sendInside(a, p, run)
	return total
}

// verdictInside gives the verdict on a text in the middle of a sequence. It reports false if
// that has been asked for.
func (s *Session) verdictInside(text []byte) (verdict.Verdict, bool) {
	if s.known {
		s.known = false
		return s.verdict, true
	}
	v, ok := s.env.Verdict(s, text)
	if !ok {
		s.asking = true
		s.anew()
		s.do(Action{Op: OpJudge, Data: bytes.Clone(text)})
	}
	return v, ok
}

// sendInside sends the server what it is to execute of such a query, or what fails with the
// problem.
func (s *Session) sendInside(a *among, p *Problem, run *forwarding) {
	s.retry = false
	msg := wire.AppendQuery(nil, string(a.rest))
	var o owed
	switch {
	case p != nil:
		o = s.simple(wire.Query)
		o.besides().instead = p
		msg = wire.AppendQuery(nil, "EXECUTE "+noStatement)
	case len(a.rest) == 0:
		o = s.simple(wire.Query)
		o.how = hide
		o.precedes(a)
		s.retunes = true
	default:
		us, _ := s.supplyQuery(msg, run)
		s.verdict.Kind = verdict.Write
		cmds, v := s.queried(a.rest, s.verdict)
		s.effects(v, cmds, a.rest)
		o = s.simple(wire.Query)
		o.cmds = cmds
		o.precedes(a)
		o.drops(namesIn(us, toDeallocate))
		o.prepares(namesIn(us, toPrepare))
		s.retunes = true
	}
	s.owed.sent(o)
	run.build(func(b []byte) []byte { return append(b, msg...) })
}
