package session

import (
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// The primary may refuse a session's settings for good: a role has been dropped, or is its no
// longer. Where it has them on a connection, a server lets the session go on, or at least give
// up what it has set. Here a statement that does nothing but give up settings (RESET, DISCARD
// ALL) runs on a connection that is given what is left of them after it.

// amending is how a session gets on that has been refused its settings.
type amending struct {
	// refusal waits for the statement at the head to be looked at; nil for none.
	refusal *Problem
	// given says that the connection has other settings than the session's, those with the
	// hash, until the statement has run.
	given bool
	hash  settings.Hash
}

// amends has the statement at the head run without settings that it gives up, or answers it
// with the refusal.
func (s *Session) amends(typ byte, total int, rest []byte) int {
	p := s.amending.refusal
	s.amending = amending{}
	if left, ok := s.left(typ, total, rest); ok {
		s.amending = amending{given: true, hash: left.Hash()}
		s.ask(Applying, left.AppendSQL)
		return 0
	}
	s.let(s.at, Clean)
	s.enter(Queued)
	s.Refuse(p)
	return s.refuse(typ, total, rest)
}

// left gives what is set after the statement at the head. ok is false if it does not only give
// up settings.
func (s *Session) left(typ byte, total int, rest []byte) (l settings.List, ok bool) {
	if typ == wire.Query {
		text, ok := wire.QueryText(rest[:min(total, len(rest))])
		if !ok || s.among != nil {
			return l, false
		}
		return s.leftBy(text)
	}
	if simple(typ) || !s.seq.whole {
		return l, false
	}
	statements := 0
	for b := rest[:s.seq.scanned]; len(b) > 0; {
		typ, total, err := wire.Header(b)
		if err != nil || total == 0 || total > len(b) {
			return l, false
		}
		switch typ {
		case wire.Parse:
			_, text, _, is := splitParse(b[:total])
			if !is {
				return l, false
			}
			if l, ok = s.leftBy(text); !ok {
				return l, false
			}
			statements++
		case wire.Bind:
			_, name, _, is := splitBind(b[:total])
			if st := s.statement(name); is && !s.seq.defines(rest, name, len(rest)) {
				if st == nil || st.raw || st.local.kind != notLocal {
					return l, false
				}
				if l, ok = s.leftBy(st.body[:st.text]); !ok {
					return l, false
				}
				statements++
			}
		}
		b = b[total:]
	}
	return l, ok && statements == 1
}

// givesUp reports whether a statement with the verdict may only give up what is set.
func (s *Session) givesUp(v verdict.Verdict, text []byte) bool {
	if v.Effects&(verdict.Session|verdict.ResetsSession) == 0 || s.status != wire.Idle || s.set.List().Hash() == (settings.Hash{}) {
		return false
	}
	_, ok := s.leftBy(text)
	return ok
}

// leftBy does so for its text.
func (s *Session) leftBy(text []byte) (l settings.List, ok bool) {
	if here, is := s.localOf(text); is {
		return l, here.kind == discardAll
	}
	if !s.legible(text) {
		return l, false
	}
	return s.set.List().After(text)
}
