package session

import (
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// SHOW pgpilot.fence gives the session's fence as a token, and SET pgpilot.fence has
// another session see at least as much. Both wait for a probe before they are executed:
// for what the fence is, and for whether what the token stands for exists.

// tokenWait is such a statement at the head of the client's bytes.
type tokenWait struct {
	// own is what waits; nil for nothing.
	own *settings.Own
	// done says that it has waited, problem why it fails.
	done    bool
	problem *Problem
}

var (
	tokenInside = Problem{
		Code: "0A000", Message: `parameter "` + override.FenceName + `" cannot be set or shown together with other statements`,
		Hint: "It waits for the primary's position. Send it by itself.",
	}
	tokenInBlock = Problem{
		Code: "25001", Message: `parameter "` + override.FenceName + `" cannot be set or shown inside a transaction block`,
		Hint: "COMMIT or ROLLBACK first: what the transaction writes has no position yet. A driver that begins transactions by itself needs autocommit for this.",
	}
	tokenUnknown = Problem{
		Code: "57P03", Message: "the session's fence is not known in time", Detail: "The primary's position, or its history, is not known.",
		Hint: "Try again when the primary can be reached; /readyz says what is wrong. failover.wait says how long statements wait for that.",
	}
)

// awaitsToken reports whether a simple query has to wait.
func (s *Session) awaitsToken(text []byte) bool {
	os, ok := settings.ParseOwn(text)
	return ok && len(os) == 1 && s.awaits(&os[0])
}

// aloneAwaitsToken reports whether a sequence that no server is needed for has to wait.
func (s *Session) aloneAwaitsToken(seq []byte) bool {
	var own *settings.Own
	given := map[string]*settings.Own{}
	for len(seq) > 0 {
		typ, total, _ := wire.Header(seq)
		msg := seq[:total]
		seq = seq[total:]
		switch typ {
		case wire.Parse:
			name, text, _, _ := splitParse(msg)
			if l, ok := s.localOf(text); ok && l.kind == ownParameter {
				given[string(name)] = l.own
			}
		case wire.Bind:
			_, name, _, _ := splitBind(msg)
			o := given[string(name)]
			if st := s.statement(name); o == nil && s.isOwn(st) {
				o = st.local.own
			}
			if o != nil && o.Name == override.FenceName {
				own = o
			}
		}
	}
	return own != nil && s.awaits(own)
}

// awaits begins to wait for what the statement needs, and reports whether it does.
func (s *Session) awaits(o *settings.Own) bool {
	if o.Name != override.FenceName || o.Resets() || s.status != wire.Idle || s.token.done {
		return false
	}
	s.token = tokenWait{own: o}
	if o.Verb == settings.ShowOwn {
		if s.fence.Settled(fence.Linear) && !s.fence.Position().IsZero() {
			s.token.done = true
			return false
		}
		s.fence.Arrived()
		s.settle()
		s.do(Action{Op: OpAwaitFence})
		s.enter(Settling)
		return true
	}
	t, err := fence.ParseToken(o.Value)
	if err != nil || o.Several {
		s.token.done, s.token.problem = true, unreadable(err)
		return false
	}
	s.do(Action{Op: OpAdmit, Token: &t})
	s.enter(Settling)
	return true
}

// unreadable is the problem of a token that cannot be read, with what is wrong with it.
func unreadable(why error) *Problem {
	p := &Problem{Code: "22023", Message: "a fence token cannot be read", Hint: "Give one whole token, as SHOW " + override.FenceName + " has shown it."}
	if why != nil {
		p.Detail = why.Error()
	}
	return p
}

// Patient reports whether what waits for its fence has nowhere else to go.
func (s *Session) Patient() bool { return s.phase == Settling && s.token.own != nil }

// tokenCame has the statement go on.
func (s *Session) tokenCame(p *Problem) {
	s.token.done, s.token.problem = true, p
	s.enter(Idle)
}

// raise has the session read at least as far as a token says. What that stands for may
// have been read on a replica, and not be visible on the primary yet.
func (s *Session) raise(at lsn.Position) {
	s.fence.Raise(at)
	s.aside, s.isAside = elsewhere, true
}

// admittedToken takes what has become of the token of SET.
func (s *Session) admittedToken(at lsn.Position, p *Problem) {
	if p == nil {
		s.raise(at)
		s.given = true
	}
	s.tokenCame(p)
}

// checkToken gives the error of a statement about the fence.
func (s *Session) checkToken(o *settings.Own) *Problem {
	w := s.token
	s.token = tokenWait{}
	switch {
	case o.Resets():
		return nil
	case s.status != wire.Idle:
		return &tokenInBlock
	case !w.done || w.own.Verb != o.Verb || w.own.Value != o.Value:
		return &tokenInside
	case w.problem != nil:
		return w.problem
	}
	if o.Verb == settings.ShowOwn && s.env.Token(s, s.fence.Position()) == "" {
		return &tokenUnknown
	}
	return nil
}
