package session

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// What a server says when it has forgotten prepared statements, and with DISCARD
// ALL everything else that a session may have left in it.
var discarded, deallocated = []byte("DISCARD ALL\x00"), []byte("DEALLOCATE ALL\x00")

// rolledBack is what a server says when a transaction that has failed is ended, or taken
// back to a savepoint.
var rolledBack = []byte("ROLLBACK\x00")

// deallocatedOne is what a server says when DEALLOCATE of one statement has run.
var deallocatedOne = []byte("DEALLOCATE\x00")

// preparedTag is what a server says when PREPARE has run.
var preparedTag = []byte("PREPARE\x00")

// What a server says of ALTER ROLE, ALTER USER and ALTER DATABASE, of which some forms
// change what sessions begin with.
var alteredRole, alteredDatabase = []byte("ALTER ROLE\x00"), []byte("ALTER DATABASE\x00")

// completed takes note of a command that has run.
func (s *Session) completed(of *owed, tag []byte) {
	if len(of.cmds) > 0 {
		s.ran(&of.cmds[0], bytes.TrimRight(tag, "\x00"))
		if of.typ == wire.Query {
			s.owed.front().cmds = of.cmds[1:]
		}
	}
	if more := of.more; more != nil && len(more.prepares) > 0 && bytes.Equal(tag, preparedTag) {
		s.ranPrepare(of)
		if of.typ == wire.Query {
			more.prepares = more.prepares[1:]
		}
	}
	if more := of.more; more != nil && len(more.drops) > 0 && bytes.Equal(tag, deallocatedOne) {
		s.ranDeallocate(more.drops[0])
		more.drops = more.drops[1:]
	}
	s.recovered = s.recovered || bytes.Equal(tag, rolledBack)
	s.altered = s.altered || bytes.Equal(tag, alteredRole) || bytes.Equal(tag, alteredDatabase)
	discard := bytes.Equal(tag, discarded)
	if !discard && !bytes.Equal(tag, deallocated) {
		return
	}
	s.forgotten()
	if discard {
		if !s.owed.binds() { // otherwise they may be for what comes behind it
			s.pins = 0
			h := &s.held[s.at]
			h.used, h.stepped, s.stepped = false, false, false
			h.roleless = h.roleless || s.losesRole()
			if s.unnamed != nil && s.unnamed.raw {
				s.unnamed = nil // nothing binds the session to it any longer
			}
		}
		s.set.Clear()
		s.changed()
	}
}

// readiness reads a ReadyForQuery. One with more than the transaction status,
// which extended kernels append to, is shown without that.
func (s *Session) readiness(msg []byte, all bool) fate {
	if !all || len(msg) <= wire.HeaderSize {
		return lose
	}
	switch status := msg[wire.HeaderSize]; status {
	case wire.Idle, wire.InTransaction, wire.Failed:
		s.status, s.recovered = s.shownStatus(status), false
		if s.status != status {
			return withhold
		}
	default:
		return lose
	}
	if len(msg) == wire.HeaderSize+1 {
		return pass
	}
	return withhold
}

// showReady tells the client that its request has been answered.
func (s *Session) showReady() {
	from := len(s.scratch)
	s.scratch = wire.AppendReadyForQuery(s.scratch, s.status)
	s.toClient(from)
}

// notified makes the fence dirty: who is told of another session's commit expects
// to see it.
func (s *Session) notified() {
	s.fence.Wrote(s.held[s.at].by)
	if s.phase == Busy || s.inTransaction() {
		s.written = true // settled with what runs
		return
	}
	s.do(Action{Op: OpSettle, Mark: s.fence.Mark()})
}

// ready handles what follows a ReadyForQuery: let go of what is no longer needed.
func (s *Session) ready() {
	if !s.inTransaction() && s.owed.empty() && (s.saw(s.at, &s.held[s.at]) || s.written) {
		s.written = false
		s.settle()
	}
	if s.altered && !s.inTransaction() && s.owed.empty() {
		s.altered = false
		s.do(Action{Op: OpAltered})
	}
	s.follow()
	s.emitMade()
	s.ranThere()
	if !s.inTransaction() && s.owed.syncs == 0 {
		s.here = nil // portals end with their transaction
		if s.owed.empty() {
			s.endPortals()
		}
	}
	if s.blocked && !s.forgetting && s.owed.syncs == 0 && s.owed.simples == 0 {
		s.blocked = false
		s.enter(Busy)
	}
	if !s.owed.empty() || s.owed.open || s.phase != Busy && s.phase != Idle {
		return
	}
	switch {
	case s.owed.unsure > 0:
		s.bind(pinCopy)
	default:
		s.pins &^= pinCopy
	}
	s.do(Action{Op: OpAnswered})
	s.forget()
	s.letGo()
	s.idle()
	if s.discards && s.phase == Idle {
		s.enter(Skipping)
	}
	s.discards = false
}

// note remembers a parameter the server reports, and reports whether the client
// is to see it: to its client the router is a primary, wherever reads run.
func (s *Session) note(body []byte) bool {
	name, rest, ok := bytes.Cut(body, []byte{0})
	value, ok2 := wire.CString(rest)
	if !ok || !ok2 {
		return true
	}
	if string(name) == "in_hot_standby" {
		return false
	}
	if escapes(string(name), string(value)) {
		s.escapes = true
		if s.phase == Busy && s.at == PrimarySlot { // what runs may have been read so already
			s.write(&s.held[s.at])
			s.held[s.at].used = true
		}
	}
	for i := range s.shown {
		if s.shown[i].Name == string(name) {
			if s.shown[i].Value != string(value) {
				s.shown = append([]handoff.Parameter(nil), s.shown...) // shared until now
				s.shown[i].Value = string(value)
			}
			return true
		}
	}
	s.shown = append(s.shown[:len(s.shown):len(s.shown)], handoff.Parameter{Name: string(name), Value: string(value)})
	return true
}
