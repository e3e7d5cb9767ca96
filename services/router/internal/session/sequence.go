package session

import (
	"bytes"
	"math"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// sequence is what is known of the extended-protocol messages at the head of the
// client's bytes: everything up to a Sync is one implicit transaction and goes to
// one server ("Message Flow: Extended Query").
type sequence struct {
	// scanned is how many bytes have been looked at. whole says that they end with
	// the Sync.
	scanned int
	whole   bool
	// verdict is of all of it together, as far as it has been looked at.
	verdict verdict.Verdict
	// hint is what its statements ask for.
	hint *hints
	// own says that a message is about a statement that needs no server, others, that one
	// is about another, tunes, that what decides where those run may be set among them,
	// portals, that a portal of theirs may be executed behind it.
	own, others, tunes, portals bool
	// unused says that the unnamed portal has been bound in it and not been executed.
	unused bool
	// bound says of portals bound in it whether they run what needs no server, if there
	// are any that do.
	bound map[string]bool
	// gives says that a statement of it gives up settings: it is waited for as a whole (amend.go).
	gives bool
	// parses are its Parse messages, with the place of their names; next is how many
	// of them have been sent, and names where those under a name are if they are many.
	parses []parsed
	next   int
	names  map[string]*named
}

type parsed struct {
	from, to int
	verdict  verdict.Verdict
	hint     *hints
}

// parsed notes that the next Parse has been sent.
func (q *sequence) parsed() { q.next = min(q.next+1, len(q.parses)) }

// few is how many Parses of a sequence are compared one by one with a name.
const few = 16

// named are the first and the last Parse under a name, of those that are not among the few.
type named struct{ first, last int }

// add notes a Parse.
func (q *sequence) add(name []byte, p parsed) {
	q.parses = append(q.parses, p)
	n := len(q.parses) - 1
	if n < few {
		return
	}
	if at := q.names[string(name)]; at != nil {
		at.last = n
		return
	}
	if q.names == nil {
		q.names = map[string]*named{}
	}
	q.names[string(name)] = &named{n, n}
}

// latest gives the last Parse under a name in the sequence at the start of b; nil for none.
func (q *sequence) latest(b, name []byte) *parsed {
	if at := q.names[string(name)]; at != nil {
		return &q.parses[at.last]
	}
	for i := min(len(q.parses), few) - 1; i >= 0; i-- {
		if p := &q.parses[i]; bytes.Equal(b[p.from:p.to], name) {
			return p
		}
	}
	return nil
}

// defines reports whether there is a Parse under a name before an offset in the sequence
// at the start of b.
func (q *sequence) defines(b, name []byte, before int) bool {
	for i := range min(len(q.parses), few) {
		if p := &q.parses[i]; p.from < before && bytes.Equal(b[p.from:p.to], name) {
			return true
		}
	}
	at := q.names[string(name)]
	return at != nil && q.parses[at.first].from < before
}

func (q *sequence) reset() {
	if cap(q.parses) > roomy {
		q.parses = nil
	}
	*q = sequence{parses: q.parses[:0]}
}

// maxSequence is how much of a sequence is gathered before it is known to read,
// in bytes; one that is longer goes to the primary.
const maxSequence = 1 << 20

// outcome of a survey.
type outcome uint8

const (
	known outcome = iota
	more          // bytes are needed
	asked         // a verdict is needed
)

// survey looks ahead at a sequence whose head is at the start of b, until it is
// known where it goes. Where it goes to the primary anyway, it looks at what is
// there, for the verdicts: a text that nobody judged pins the session.
func (s *Session) survey(b []byte, anyway bool) outcome {
	q := &s.seq
	if q.scanned == 0 {
		q.reset()
		q.verdict = verdict.Verdict{Kind: verdict.Read}
	}
	for {
		msg := b[q.scanned:]
		typ, total, err := wire.Request(msg)
		switch {
		case err != nil:
			q.join(verdict.Unclassified())
			return known
		case total == 0 || total > len(msg):
			switch {
			case anyway && q.scanned > 0 && !q.gives && (q.others || !q.own):
				return known
			case q.scanned+max(total, len(msg)) > maxSequence:
				q.join(verdict.Unclassified())
				return known
			}
			return more
		}
		msg = msg[:total]
		switch typ {
		case wire.Parse:
			if !s.surveyParse(msg) {
				return asked
			}
		case wire.Bind:
			if !s.surveyBind(b, msg) {
				return asked
			}
		case wire.Describe, wire.Close:
			kind, name, ok := splitTarget(msg)
			switch {
			case ok && kind == 'S' && q.latest(b, name) != nil: // as what has been parsed
			case ok && (kind == 'S' && s.statement(name).isHere() || kind == 'P' && s.boundHere(name)):
				q.own = true
			default:
				q.others = true
			}
			if typ == wire.Describe && s.describesSQL(msg) {
				q.join(verdict.Unclassified()) // the primary's connection has it
			}
		case wire.Execute:
			name, limit, ok := cutString(msg[wire.HeaderSize:])
			here := ok && s.boundHere(name)
			q.own, q.others = q.own || here, q.others || !here
			s.surveyPortal(typ, name, ok && bytes.Equal(limit, []byte{0, 0, 0, 0}), here)
		case wire.Sync:
			q.scanned += total
			q.whole, q.portals = true, q.portals || q.unused
			return known
		default: // no more of it may be waited for, or it is no sequence
			q.join(verdict.Unclassified())
			return known
		}
		q.scanned += total
		anyway = anyway || q.verdict.Kind != verdict.Read
	}
}

// join adds a statement's verdict.
func (q *sequence) join(v verdict.Verdict) {
	if needsNone(v) {
		q.own, q.tunes = true, q.tunes || v == harmless
		return
	}
	q.others = true
	if v.Kind != verdict.Read {
		q.verdict.Kind = v.Kind
	}
	q.verdict.Effects |= v.Effects
	if v.Fingerprint != 0 {
		q.verdict.Fingerprint = v.Fingerprint
	}
}

// surveyParse looks at a Parse. It reports false if the verdict on it has been
// asked for.
func (s *Session) surveyParse(msg []byte) bool {
	q := &s.seq
	name, text, types, ok := splitParse(msg)
	v := verdict.Unclassified()
	var hint *hints
	switch {
	case !ok:
	case len(name) > maxName, len(msg)-wire.HeaderSize > s.env.Settings().MaxText: // see stream
		v = unlooked()
	case !s.known && s.repeats(name, msg[wire.HeaderSize+len(name)+1:]):
		v = s.unnamed.verdict
	default:
		v, ok = s.judge(text, types)
		if !ok {
			return false
		}
		hint = s.hintsOf(text)
		q.hint = q.hint.with(hint)
	}
	from := q.scanned + wire.HeaderSize
	q.add(name, parsed{from, from + len(name), v, hint})
	q.join(v)
	q.gives = q.gives || s.givesUp(v, text)
	return true
}

// surveyBind looks at a Bind, likewise.
func (s *Session) surveyBind(b, msg []byte) bool {
	q := &s.seq
	portal, name, _, whole := splitBind(msg)
	v := verdict.Unclassified()
	var st *Statement
	if whole {
		st = s.statement(name)
		var ok bool
		if v, ok = s.verdictOfBind(b, name, st); !ok {
			return false
		}
	}
	q.join(v)
	s.surveyPortal(wire.Bind, portal, whole, needsNone(v))
	if st != nil && !st.raw {
		q.gives = q.gives || s.givesUp(v, st.body[:st.text])
	}
	return true
}

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

// needsNone reports whether a verdict is that on a statement which needs no server.
func needsNone(v verdict.Verdict) bool {
	return v.Generation >= shown.Generation && (v == harmless || v == shown || v == deallocates)
}

// unlooked is the verdict on a text that nobody looks into: it may hold a SET as
// well as anything else.
func unlooked() verdict.Verdict {
	v := verdict.Unclassified()
	v.Effects |= verdict.Session
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

// splitParse takes a whole Parse apart ("Message Formats"). types are those of the
// parameters that it gives, four bytes each.
func splitParse(msg []byte) (name, text, types []byte, ok bool) {
	name, rest, ok := cutString(msg[wire.HeaderSize:])
	if !ok {
		return nil, nil, nil, false
	}
	text, types, ok = cutString(rest)
	if !ok || len(types) < 2 || len(types) != 2+4*(int(types[0])<<8|int(types[1])) {
		return nil, nil, nil, false
	}
	return name, text, types[2:], true
}

// splitBind takes the names off a Bind, of which the end may be missing.
func splitBind(msg []byte) (portal, statement, rest []byte, ok bool) {
	portal, rest, ok = cutString(msg[wire.HeaderSize:])
	if !ok {
		return nil, nil, nil, false
	}
	statement, rest, ok = cutString(rest)
	return portal, statement, rest, ok
}

// splitTarget takes a whole Describe or Close apart: 'S' and a statement's name,
// or 'P' and a portal's.
func splitTarget(msg []byte) (kind byte, name []byte, ok bool) {
	if len(msg) < wire.HeaderSize+2 {
		return 0, nil, false
	}
	name, ok = wire.CString(msg[wire.HeaderSize+1:])
	return msg[wire.HeaderSize], name, ok
}

func cutString(b []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}
