package session

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// A transaction block begins here: no server needs to know of it before a statement
// needs a server, and then BEGIN and that statement leave together. Until then, and
// after a failure that no server knows of, what is said about the block is answered
// here as a server would (PostgreSQL documentation, "SQL Commands: BEGIN"). What is not
// understood completely begins the block on the primary first.

// Beginnings are what a login's connections begin with, as far as it matters to a block
// that no server knows of.
type Beginnings struct {
	// Known says that the others have been read from a connection.
	Known bool
	// IdleInTransaction is idle_in_transaction_session_timeout; 0: none.
	IdleInTransaction time.Duration
	// Limited says that transaction_timeout is set: it counts from BEGIN.
	Limited bool
	// Isolation is default_transaction_isolation.
	Isolation settings.Isolation
	// Temporary says that search_path names a schema of temporary tables: any table that is
	// made may be one.
	Temporary bool
}

// block is a transaction block that has begun here. The value is plain: all of it can
// travel. The zero value is none, or one that began on a server.
type block struct {
	state blockState
	modes settings.Modes
	// portal says that the unnamed portal is that of a statement about the block, which
	// has been run.
	portal bool
	// limit is the time for which the session may be idle in it, 0 for any.
	limit time.Duration
	// unsure says that its BEGIN has been sent and not been answered: what follows must
	// not run if that fails.
	unsure bool
	// resync says that it has failed, and that the server waits for a Sync.
	resync bool
	// replica says that it is a replica that has it. ran says that a statement of it has
	// been answered on one, there or where it was before.
	replica, ran bool
	// on is the timeline that the latest of those was on, 0 once the client knows that it
	// may be lost what they have shown.
	on lsn.Timeline
}

type blockState uint8

const (
	noBlock blockState = iota
	// opened: the client has been told, no server has.
	opened
	// begun: its BEGIN has been sent.
	begun
	// fallen: it has failed, and no server has it.
	fallen
)

// here reports whether no server has the block.
func (b *block) here() bool { return b.state == opened || b.state == fallen }

var blockStates = map[blockState]string{opened: "opened", begun: "begun", fallen: "fallen"}

// pack gives the block as it travels, nil for none.
func (b *block) pack() *handoff.Block {
	if b.state == noBlock {
		return nil
	}
	return &handoff.Block{
		State: blockStates[b.state], Begin: string(b.modes.AppendBegin(nil)), Portal: b.portal, IdleMicros: b.limit.Microseconds(), Ran: b.ran, Timeline: b.on,
	}
}

// unpack makes the block of what has travelled.
func (b *block) unpack(t *handoff.Block) {
	*b = block{}
	if t == nil {
		return
	}
	for state, name := range blockStates {
		if name == t.State {
			b.state = state
		}
	}
	begin, _ := settings.ParseBlock([]byte(t.Begin))
	b.modes, b.portal, b.limit = begin.Modes, t.Portal, time.Duration(t.IdleMicros)*time.Microsecond
	b.ran, b.on = t.Ran, t.Timeline
}

// inTransaction reports whether a server has a transaction of the session's open.
func (s *Session) inTransaction() bool { return s.status != wire.Idle && !s.block.here() }

// lazy reports whether a block may begin here, as things are set.
func (s *Session) lazy() bool {
	_, ok := s.idleLimit()
	return ok && s.env.Settings().LazyBegin && s.status == wire.Idle && s.pins == 0 && !s.limited()
}

// idleLimit gives the time for which the session may be idle in a transaction, 0 for
// any. ok is false if it is not known.
func (s *Session) idleLimit() (limit time.Duration, ok bool) {
	d := s.env.Beginnings()
	value, isSet, ok := s.set.List().Value("idle_in_transaction_session_timeout")
	switch {
	case !ok || !d.Known:
		return 0, false
	case !isSet:
		return d.IdleInTransaction, true
	}
	return settings.ParseTime(value)
}

// limited reports whether transactions may have a time limit, which counts from their
// beginning.
func (s *Session) limited() bool {
	value, isSet, ok := s.set.List().Value("transaction_timeout")
	if !isSet {
		return s.env.Beginnings().Limited
	}
	limit, known := settings.ParseTime(value)
	return !ok || !known || limit != 0
}

// limitIdle has the session end when it stays idle for too long in a block that no server
// has.
func (s *Session) limitIdle() {
	if s.block.here() && s.block.limit > 0 {
		s.do(Action{Op: OpLimitIdle, Wait: s.block.limit})
	}
}

// IdleTooLong says that the time of an OpLimitIdle has passed, at which Steps was as
// given.
func (s *Session) IdleTooLong(steps uint64) {
	if s.phase == Idle && s.steps == steps && s.block.here() {
		s.finish(&Problem{Code: "25P03", Message: "terminating connection due to idle-in-transaction timeout", Fatal: true})
	}
}

// shownStatus gives the transaction status that the client is shown for the server's.
func (s *Session) shownStatus(status byte) byte {
	switch {
	case s.block.state == fallen:
		return wire.Failed
	case s.block.state == begun && status == wire.Idle:
		s.block = block{}
	}
	return status
}
