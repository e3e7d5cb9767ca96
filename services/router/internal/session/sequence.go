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
	// parses are its Parse messages, with the place of their names; next is how many
	// of them have been sent.
	parses []parsed
	next   int
}

type parsed struct {
	from, to int
	verdict  verdict.Verdict
}

func (q *sequence) reset() { *q = sequence{parses: q.parses[:0]} }

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
// there, only for the verdicts.
func (s *Session) survey(b []byte, anyway bool) outcome {
	q := &s.seq
	if q.scanned == 0 {
		q.reset()
		q.verdict = verdict.Verdict{Kind: verdict.Read}
	}
	for {
		msg := b[q.scanned:]
		typ, total, err := wire.Header(msg)
		switch {
		case err != nil:
			q.write(verdict.Unclassified())
			return known
		case total == 0 || total > len(msg):
			switch {
			case anyway:
				return known
			case q.scanned+max(total, len(msg)) > maxSequence:
				q.write(verdict.Unclassified())
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
			q.join(s.verdictOfBind(b, msg))
		case wire.Describe, wire.Execute, wire.Close:
		case wire.Sync:
			q.scanned += total
			q.whole = true
			return known
		default: // no more of it may be waited for, or it is no sequence
			q.write(verdict.Unclassified())
			return known
		}
		q.scanned += total
		if q.verdict.Kind != verdict.Read && !anyway {
			return known
		}
	}
}

// write says that the sequence may write, whatever comes.
func (q *sequence) write(v verdict.Verdict) {
	q.join(v)
	q.verdict.Fingerprint = 0
}

// join adds a statement's verdict.
func (q *sequence) join(v verdict.Verdict) {
	if v.Kind != verdict.Read {
		q.verdict.Kind = v.Kind
	}
	q.verdict.Effects |= v.Effects
	q.verdict.Fingerprint = v.Fingerprint
}

// surveyParse looks at a Parse. It reports false if the verdict on it has been
// asked for.
func (s *Session) surveyParse(msg []byte) bool {
	q := &s.seq
	name, text, _, ok := splitParse(msg)
	v := verdict.Unclassified()
	if ok {
		v, ok = s.judge(text)
		if !ok {
			return false
		}
	}
	from := q.scanned + wire.HeaderSize
	q.parses = append(q.parses, parsed{from, from + len(name), v})
	q.join(v)
	return true
}

// judge gives the verdict on a text, or asks for it and reports false.
func (s *Session) judge(text []byte) (verdict.Verdict, bool) {
	if s.known {
		s.known = false
		return s.verdict, true
	}
	if len(text) > s.env.Settings().MaxText {
		return unlooked(), true
	}
	v, ok := s.env.Verdict(s, text)
	if !ok {
		s.do(Action{Op: OpJudge, Data: text})
		s.enter(Judging)
	}
	return v, ok
}

// unlooked is the verdict on a text that nobody looks into: it may hold a SET as
// well as anything else.
func unlooked() verdict.Verdict {
	v := verdict.Unclassified()
	v.Effects |= verdict.Session
	return v
}

// verdictOfBind gives the verdict on the statement that a Bind names, prepared
// earlier in the sequence or before it. One that is not known is the server's to
// refuse.
func (s *Session) verdictOfBind(b, msg []byte) verdict.Verdict {
	_, name, _, ok := splitBind(msg)
	if !ok {
		return verdict.Unclassified()
	}
	for i := len(s.seq.parses) - 1; i >= 0; i-- {
		if p := &s.seq.parses[i]; bytes.Equal(b[p.from:p.to], name) {
			return p.verdict
		}
	}
	if st := s.statement(name); st != nil {
		return st.verdict
	}
	return verdict.Unclassified()
}

// splitParse takes a whole Parse apart ("Message Formats").
func splitParse(msg []byte) (name, text, types []byte, ok bool) {
	name, rest, ok := cutString(msg[wire.HeaderSize:])
	if !ok {
		return nil, nil, nil, false
	}
	text, types, ok = cutString(rest)
	if !ok || len(types) < 2 || len(types) != 2+4*(int(types[0])<<8|int(types[1])) {
		return nil, nil, nil, false
	}
	return name, text, types, true
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
