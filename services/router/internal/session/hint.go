package session

import (
	"fmt"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
)

// Hints are what the comments of a statement ask of the router. They choose among the
// servers that may serve a read; a write goes to the primary whatever they say, and no
// hint has a read see less than the session's fencing mode promises.

// hints are those of a statement, or of a sequence of them. Nobody changes one.
type hints struct {
	set override.Set
	// tokens are those of sessions whose writes are to be seen, problem is why one of them
	// cannot be read.
	tokens  []fence.Token
	problem *Problem
	// unknown is the first that is not understood.
	unknown string
}

// hintsOf gives a statement's hints; nil if it has none, or if the server may see
// comments elsewhere.
func (s *Session) hintsOf(text []byte) *hints {
	if !sqltoken.MayHint(text) || !s.legible(text) {
		return nil
	}
	items, err := sqltoken.Hints(text, s.major())
	if err != nil || len(items) == 0 {
		return nil
	}
	h := &hints{}
	for _, item := range items {
		h.add(item.Kind, string(text[item.Item.Start:item.Item.End]), string(text[item.Value.Start:item.Value.End]))
	}
	return h
}

func (h *hints) add(kind sqltoken.HintKind, item, value string) {
	var set override.Set
	switch kind {
	case sqltoken.HintPrimary:
		set.SetRoute(override.Primary)
	case sqltoken.HintReplica:
		set.SetRoute(override.Replica)
	case sqltoken.HintFreshness:
		if _, p := set.Parse(override.FreshnessName, value); p != nil {
			kind = sqltoken.HintUnknown
		}
	case sqltoken.HintFence:
		t, err := fence.ParseToken(value)
		if err != nil {
			h.problem = unreadable(err)
			return
		}
		h.tokens = append(h.tokens, t)
	}
	if kind == sqltoken.HintUnknown && h.unknown == "" {
		h.unknown = item
	}
	h.set = h.set.Both(set)
}

// with gives the hints of both: those of statements that go to one server.
func (h *hints) with(other *hints) *hints {
	switch {
	case h == nil || h == other:
		return other
	case other == nil:
		return h
	}
	both := *h
	both.set = h.set.Both(other.set)
	both.tokens = append(both.tokens[:len(both.tokens):len(both.tokens)], other.tokens...)
	if both.problem == nil {
		both.problem = other.problem
	}
	if both.unknown == "" {
		both.unknown = other.unknown
	}
	return &both
}

// longestHint is how much is shown of a hint that is not understood, in bytes.
const longestHint = 64

// hinted takes note of the hints of what is at the head. One that is not understood is
// told of once.
func (s *Session) hinted(h *hints) {
	s.hint, s.admitted = h, 0
	if h == nil || h.unknown == "" || s.warned {
		return
	}
	s.warned = true
	item := h.unknown
	if len(item) > longestHint {
		item = item[:longestHint] + "..."
	}
	s.Warn("01000", fmt.Sprintf("pgpilot does not understand the hint %q", item),
		"Hints are written as in /* pgpilot: primary */. There are primary, replica, freshness=<time> such as freshness=250ms, and fence=<token>.")
}

// admits has the tokens of the read at the head held against what exists, one by one,
// and reports whether it waits for that.
func (s *Session) admits() bool {
	h := s.hint
	switch {
	case h == nil:
		return false
	case h.problem != nil:
		s.enter(Queued)
		s.Refuse(h.problem)
		return true
	case s.admitted == len(h.tokens):
		return false
	}
	s.do(Action{Op: OpAdmit, Token: &h.tokens[s.admitted]})
	s.enter(Settling)
	return true
}

// brings reports whether a message parses or binds a statement with a token, which is to
// be held against what exists before it runs.
func (s *Session) brings(typ byte, msg []byte) bool {
	var h *hints
	switch typ {
	case wire.Parse:
		if _, text, _, ok := splitParse(msg); ok && len(text) <= s.env.Settings().MaxText {
			h = s.hintsOf(text)
		}
	case wire.Bind:
		if _, name, _, ok := splitBind(msg); ok {
			if st := s.statement(name); st != nil {
				h = st.hint
			}
		}
	}
	return h != nil && (len(h.tokens) > 0 || h.problem != nil)
}

// Admitted says after OpAdmit which position the token stands for, and whether what it
// names was lost in a promotion; p is why it is refused.
func (s *Session) Admitted(at lsn.Position, lost bool, p *Problem) {
	if s.phase != Settling {
		return
	}
	if p != nil && s.token.own == nil {
		s.enter(Queued)
		s.Refuse(p)
		return
	}
	if lost {
		s.Warn("01000", "a write that the fence token stands for was lost when another server became the primary", "Check the data that was written last.")
	}
	if s.token.own != nil {
		s.admittedToken(at, p)
		return
	}
	s.admitted++
	s.raise(at)
	s.read()
}

// wanted gives what holds for the statement at the head.
func (s *Session) wanted() override.Values {
	v := s.values()
	if s.hint != nil {
		v = s.hint.set.Over(v)
	}
	return v
}
