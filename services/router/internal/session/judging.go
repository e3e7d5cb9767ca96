package session

import (
	"math"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// forgets is the verdict on DISCARD ALL and DEALLOCATE, where the server executes them;
// deallocates, of the latter, in a sequence: it needs no server. Their generation makes
// these no classifier's.
var (
	forgets     = verdict.Verdict{Kind: verdict.Write, Effects: verdict.ResetsSession, Fingerprint: 1}
	deallocates = verdict.Verdict{Kind: verdict.Write, Effects: verdict.ResetsSession, Fingerprint: 1, Generation: math.MaxUint64}
)

// harmless is the verdict on a statement about the router's own parameters, which is
// not sent to a server. What it is sent with mostly goes to the primary: nobody needs to
// know what that would be if the parameter was set already. shown is that on a SHOW of one.
var (
	harmless = verdict.Verdict{Kind: verdict.Write, Fingerprint: 1, Generation: math.MaxUint64}
	shown    = verdict.Verdict{Kind: verdict.Write, Fingerprint: 1, Generation: math.MaxUint64 - 1}
)

// judge gives the verdict on a text with such types of parameters, or asks for it and
// reports false.
func (s *Session) judge(text, types []byte) (verdict.Verdict, bool) {
	if s.known {
		s.known = false
		return s.verdict, true
	}
	if len(text) > s.env.Settings().MaxText {
		return unlooked(), true
	}
	if l, ok := s.localOf(text); ok {
		return l.verdict(), true
	}
	text = typed(text, types)
	v, ok := s.env.Verdict(s, text)
	if !ok {
		s.do(Action{Op: OpJudge, Data: text})
		s.enter(Judging)
	}
	return v, ok
}

// needsNone reports whether a verdict is that on a statement which needs no server.
func needsNone(v verdict.Verdict) bool {
	return v.Generation >= shown.Generation && (v == harmless || v == shown || v == deallocates)
}

// unlooked is the verdict on a text that nobody looks into: it may hold a SET as
// well as a LOAD or anything else.
func unlooked() verdict.Verdict {
	v := verdict.Unclassified()
	v.Effects |= verdict.Session | verdict.Indelible
	return v
}

// verdictOfBind gives the verdict on the statement of the name in a Bind, prepared
// earlier in the sequence or, as st, before it. One that is not known is the server's to
// refuse. It reports false if the verdict has been asked for: the one that the
// statement was prepared with holds no more.
func (s *Session) verdictOfBind(b, name []byte, st *Statement) (verdict.Verdict, bool) {
	if p := s.seq.latest(b, name); p != nil {
		s.seq.hint = s.seq.hint.with(p.hint)
		return p.verdict, true
	}
	if st != nil {
		s.seq.hint = s.seq.hint.with(st.hint)
	}
	switch {
	case st == nil, st.sql: // the connection is equipped with that, if it is the primary's
		return verdict.Unclassified(), true
	case !s.outdated(st):
		return st.verdict, true
	}
	text, types := st.body[:st.text], st.body[st.text+1+2:]
	v, ok := s.judge(text, types)
	if ok {
		st.verdict, st.cmds = v, s.commands(text, v)
	}
	return v, ok
}

// outdated reports whether a statement's verdict holds no more. What nobody has
// looked into, and what the router knows by itself, has one that always does.
func (s *Session) outdated(st *Statement) bool {
	return (!st.raw || st.sql) && st.local.kind == notLocal && !st.forgets && (s.escapes || !s.env.Current(st.verdict))
}

// lasting gives what must be taken for true of a statement that is about to be
// bound: if its verdict holds no more, and it is too late to ask, it may do anything
// to the server session, and write where that is possible.
func (s *Session) lasting(st *Statement) verdict.Verdict {
	v := st.verdict
	switch {
	case st.sql && s.held[s.at].used: // it may be another one by now
		return verdict.Unclassified()
	case s.outdated(st):
		v.Effects |= verdict.Unproven
		if s.at == PrimarySlot {
			v.Kind = verdict.Write
		}
	}
	return v
}

// verdictOfParse gives the verdict on the Parse that is being sent. Most have been
// looked at before; one that has arrived in the middle of a sequence may have to
// be asked for. Then it reports false. repeated says that the client repeats a statement.
func (s *Session) verdictOfParse(text, types []byte, repeated bool) (verdict.Verdict, bool) {
	if q := &s.seq; q.next < len(q.parses) {
		q.next++
		return q.parses[q.next-1].verdict, true
	}
	if s.known {
		s.known = false
		return s.verdict, true
	}
	if repeated {
		return s.unnamed.verdict, true
	}
	if l, ok := s.localOf(text); ok {
		return l.verdict(), true
	}
	text = typed(text, types)
	v, ok := s.env.Verdict(s, text)
	if !ok {
		s.asking = true
		s.anew()
		s.do(Action{Op: OpJudge, Data: text})
	}
	return v, ok
}

// unask forgets the question about a Parse in the middle of a sequence.
func (s *Session) unask() {
	if s.asking {
		s.asking = false
		s.do(Action{Op: OpWithdraw})
	}
	s.known = false
}
