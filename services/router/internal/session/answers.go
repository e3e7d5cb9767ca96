package session

import "github.com/pgpilot/pgpilot/libs/wire"

// answers is the queue of what a connection still owes: one entry per forwarded
// message that the server answers, named by the message's type, oldest first.
// The end of copied-in data (CopyDone, CopyFail) has an entry too, though it has
// no answer of its own: it tells a Sync the server ignores from one it answers.
type answers struct {
	q    []byte
	head int
}

func (a *answers) empty() bool { return a.head == len(a.q) }

func (a *answers) push(typ byte) {
	if a.head == len(a.q) {
		a.q, a.head = a.q[:0], 0
	}
	a.q = append(a.q, typ)
}

func (a *answers) front() byte {
	if a.empty() {
		return 0
	}
	return a.q[a.head]
}

// pop removes the front, and the ends of copied data that are then in front.
func (a *answers) pop() {
	a.head++
	for a.front() == wire.CopyDone || a.front() == wire.CopyFail {
		a.head++
	}
}

func (a *answers) clear() { a.q, a.head = a.q[:0], 0 }

// simple reports whether a simple query, or a function call, is among what is
// owed: until it is answered nothing further of the client is looked at.
func (a *answers) simple() bool {
	for _, t := range a.q[a.head:] {
		if t == wire.Query || t == wire.FunctionCall {
			return true
		}
	}
	return false
}

// queued reports whether a client message of this type gets an entry. Flush has
// no answer, and copied data belongs to the request that started the copying.
func queued(typ byte) bool {
	switch typ {
	case wire.Query, wire.Parse, wire.Bind, wire.Describe, wire.Execute, wire.Close, wire.Sync, wire.FunctionCall, wire.CopyDone, wire.CopyFail:
		return true
	}
	return false
}

// sent adds a forwarded message.
func (a *answers) sent(typ byte) {
	if queued(typ) && (!a.empty() || typ != wire.CopyDone && typ != wire.CopyFail) {
		a.push(typ)
	}
}

// answered removes what a server message completes. ready is set for
// ReadyForQuery; ok is false if the message answers nothing that was asked.
func (a *answers) answered(typ byte) (ready, ok bool) {
	front := a.front()
	switch typ {
	case wire.ReadyForQuery:
		if front != wire.Query && front != wire.Sync && front != wire.FunctionCall {
			return true, false
		}
		a.pop()
		return true, true
	case wire.ErrorResponse:
		a.skipToSync()
		return false, true
	case wire.ParseComplete:
		return false, a.popIf(front == wire.Parse)
	case wire.BindComplete:
		return false, a.popIf(front == wire.Bind)
	case wire.CloseComplete:
		return false, a.popIf(front == wire.Close)
	case wire.RowDescription, wire.NoData:
		if front == wire.Describe {
			a.pop()
		}
	case wire.CommandComplete, wire.EmptyQueryResponse, wire.PortalSuspended:
		if front == wire.Execute {
			a.pop()
		}
	case wire.CopyInResponse:
		a.swallowSyncs()
	}
	return false, true
}

func (a *answers) popIf(is bool) bool {
	if is {
		a.pop()
	}
	return is
}

// skipToSync follows the server, which after an error in an extended-protocol
// sequence discards messages of every kind up to the next Sync (PostgreSQL
// documentation, "Message Flow: Extended Query"). A simple query's error ends at
// its own ReadyForQuery, as does one raised by Sync itself.
func (a *answers) skipToSync() {
	switch a.front() {
	case wire.Sync, wire.Query, wire.FunctionCall:
		return
	}
	for !a.empty() && a.front() != wire.Sync {
		a.head++
	}
}

// swallowSyncs follows the server into copy-in mode, where it ignores a Sync
// that came behind the Execute and before the end of the data ("Message Flow:
// COPY Operations").
func (a *answers) swallowSyncs() {
	if a.front() != wire.Execute {
		return
	}
	rest := a.q[a.head+1:]
	kept := a.q[:a.head+1]
	for i, t := range rest {
		if t == wire.CopyDone || t == wire.CopyFail {
			kept = append(kept, rest[i:]...)
			break
		}
		if t != wire.Sync {
			kept = append(kept, t)
		}
	}
	a.q = kept
}
