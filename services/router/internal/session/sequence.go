package session

import (
	"bytes"

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
