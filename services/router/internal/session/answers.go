package session

import (
	"slices"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// answers is the queue of what a connection still owes: one entry per forwarded
// message that the server answers, oldest first. The end of copied-in data
// (CopyDone, CopyFail) has an entry too, though it has no answer of its own: it
// tells a Sync the server ignores from one it answers.
type answers struct {
	q    []owed
	head int
	// nothing is the front of an empty queue.
	nothing owed
	// simples is how many entries are a simple query or a function call, syncs how
	// many end a sequence, prepares how many are an Execute of a PREPARE.
	simples, syncs, prepares int
	// open says that messages have been sent since the last Sync, executed that there was
	// an Execute among them.
	open, executed bool
	// changes counts the entries that change statements, openChanges those of them
	// that were sent since the last Sync.
	changes, openChanges [scopes]int
	// copies counts the entries that may copy in.
	copies int
	// begun says that part of the front's answer has come.
	begun bool
	// erred says that the client has been told of an error of what the front ends, or of
	// the sequence that is skipped.
	erred bool
	// skipping says that the server discards what it is sent until the next Sync,
	// which has not been sent yet ("Message Flow: Extended Query").
	skipping bool
	// copying says that the server takes data in, whose end has not been sent.
	copying bool
	// unsure counts the Syncs that were sent to a server copying in, which ignores
	// them ("Message Flow: COPY Operations"), unless the copy had already failed: then
	// it answers them. Which it was shows only by what comes next.
	unsure int
}

// roomy is the capacity that an empty queue may keep.
const roomy = 1 << 10

// crowd is how many entries are too many: nothing else bounds what a client sends while an
// answer is due.
const crowd = 64 << 10

func (a *answers) crowded() bool { return len(a.q)-a.head >= crowd }

func (a *answers) empty() bool { return a.head == len(a.q) }

// front gives the oldest entry; its type is zero if there is none. It is valid
// until the next push.
func (a *answers) front() *owed {
	if a.empty() {
		return &a.nothing
	}
	return &a.q[a.head]
}

// last gives the youngest entry, likewise.
func (a *answers) last() *owed {
	if a.empty() {
		return &a.nothing
	}
	return &a.q[len(a.q)-1]
}

func (a *answers) push(o *owed) {
	switch {
	case a.empty():
		a.q, a.head = a.q[:0], 0
		if cap(a.q) > roomy {
			a.q = nil
		}
	case a.head >= roomy && a.head > len(a.q)/2: // never empty under constant pipelining
		n := copy(a.q, a.q[a.head:])
		clear(a.q[n:])
		a.q, a.head = a.q[:n], 0
	}
	if o.st != nil && (o.typ == wire.Parse || o.typ == wire.Bind || o.typ == wire.Describe) {
		o.server = o.st.server
	}
	if simple(o.typ) {
		a.simples++
	}
	if o.typ == wire.Sync {
		a.syncs++
		a.openChanges = [scopes]int{}
	}
	if o.preparesLater() {
		a.prepares++
	}
	if o.copies {
		a.copies++
	}
	a.executed = o.typ == wire.Execute || a.executed && o.typ != wire.Sync && !simple(o.typ)
	a.changes[o.scope]++
	a.openChanges[o.scope]++
	a.q = append(a.q, *o)
}

// unsettled reports whether a sequence before the open one changes statements in
// the scope: if it fails, it does not.
func (a *answers) unsettled(in scope) bool { return a.changes[in] > a.openChanges[in] }

// next removes the front.
func (a *answers) next() {
	a.leave()
	a.q[a.head-1] = owed{}
}

// leave removes the front from all but the memory.
func (a *answers) leave() {
	o := &a.q[a.head]
	if simple(o.typ) {
		a.simples--
	}
	if o.typ == wire.Sync {
		a.syncs--
	}
	if o.preparesLater() {
		a.prepares--
	}
	if o.copies {
		a.copies--
	}
	a.changes[o.scope]--
	a.openChanges[o.scope] = min(a.openChanges[o.scope], a.changes[o.scope])
	a.head++
	a.begun, a.erred = false, false
}

// pop removes the front, and the ends of copied data that are then in front.
func (a *answers) pop() {
	a.next()
	for ending(a.front().typ) {
		a.next()
	}
}

// all gives every entry, the oldest first. It is valid until the next push.
func (a *answers) all() []owed { return a.q[a.head:] }

// binds reports whether there is an entry of a statement that a server is to execute, or
// that only the server has, behind the one that is being answered.
func (a *answers) binds() bool {
	behind := a.all()
	if a.begun {
		behind = behind[1:]
	}
	return slices.ContainsFunc(behind, func(o owed) bool {
		return o.how == forward && (o.typ == wire.Bind || simple(o.typ) || o.typ == wire.Parse && o.st != nil && o.st.raw)
	})
}

// drop removes everything, the connection being gone, and gives it, the oldest
// first. The result is valid until the next push.
func (a *answers) drop() []owed {
	all := a.all()
	*a = answers{q: a.q[:0]}
	return all
}

func simple(typ byte) bool { return typ == wire.Query || typ == wire.FunctionCall }

func ending(typ byte) bool { return typ == wire.CopyDone || typ == wire.CopyFail }

// sent adds a forwarded message.
func (a *answers) sent(o owed) { a.add(&o) }

// add does so. Flush has no answer, and copied data belongs to the request that started
// the copying.
func (a *answers) add(o *owed) {
	switch {
	case o.typ == wire.Flush || o.typ == wire.CopyData:
	case o.typ == wire.Sync && a.copying:
		a.unsure++
	case ending(o.typ):
		a.copying = false
		if !a.empty() {
			a.push(o)
		}
	case a.skipping && o.typ != wire.Sync:
	default:
		a.skipping = false
		a.open = o.typ != wire.Sync && !simple(o.typ)
		a.push(o)
	}
}

// answered takes note of a server message. It reports false if the message
// answers nothing that was asked.
func (a *answers) answered(typ byte) bool {
	switch typ {
	case wire.NoticeResponse, wire.ParameterStatus, wire.NotificationResponse:
		return true // come at any time ("Message Flow: Asynchronous Operations")
	case wire.ReadyForQuery:
		return a.ready()
	}
	ends, ok := part(a.front().typ, typ)
	if !ok {
		return false
	}
	a.begun = true
	if typ == wire.CopyInResponse {
		a.copyIn()
		return true
	}
	a.unsure = 0 // the server has got past them
	if typ == wire.CommandComplete {
		a.copied()
	}
	if ends {
		a.pop()
	}
	return true
}

// goesOn takes note of a DataRow, and reports whether the client has asked for rows: the usual
// case of answered, of which there may be very many.
func (a *answers) goesOn() bool {
	if o := a.front(); o.how != forward || o.typ != wire.Query && o.typ != wire.Execute {
		return false
	}
	a.begun, a.unsure = true, 0
	return true
}

// copied removes the end of the data of a copy that a simple query has completed: another one
// in the same string asks for its own.
func (a *answers) copied() {
	at := a.head + 1
	if at < len(a.q) && ending(a.q[at].typ) && a.front().typ == wire.Query {
		a.changes[a.q[at].scope]--
		a.q = slices.Delete(a.q, at, at+1)
	}
}

// part reports whether a server message is part of the answer to a client
// message, and whether it ends it ("Message Formats").
func part(asked, typ byte) (ends, ok bool) {
	switch asked {
	case wire.Query:
		switch typ {
		case wire.DataRow, wire.RowDescription, wire.CommandComplete, wire.EmptyQueryResponse,
			wire.CopyInResponse, wire.CopyOutResponse, wire.CopyData, wire.CopyDone:
			return false, true
		}
	case wire.Execute:
		switch typ {
		case wire.DataRow, wire.CopyInResponse, wire.CopyOutResponse, wire.CopyData, wire.CopyDone:
			return false, true
		case wire.CommandComplete, wire.EmptyQueryResponse, wire.PortalSuspended:
			return true, true
		}
	case wire.Parse:
		return true, typ == wire.ParseComplete
	case wire.Bind:
		return true, typ == wire.BindComplete
	case wire.Close:
		return true, typ == wire.CloseComplete
	case wire.Describe:
		return typ != wire.ParameterDescription, typ == wire.ParameterDescription || typ == wire.RowDescription || typ == wire.NoData
	case wire.FunctionCall:
		return false, typ == wire.FunctionCallResponse
	}
	return false, false
}

// ready takes note of a ReadyForQuery.
func (a *answers) ready() bool {
	front := a.front().typ
	a.copying = false
	switch {
	case front == wire.Sync, simple(front) && (a.begun || a.unsure == 0):
		a.pop()
	case a.unsure > 0: // one of those was not ignored
		a.unsure--
		a.skipping, a.erred = false, false
		a.open = false
	default:
		return false
	}
	return true
}

// failed follows the server after an error, and gives the entries it discards, the
// failed one first. In an extended-protocol sequence it discards messages of
// every kind up to the next Sync, but for what asks whether it does; a simple query's
// error ends at its own ReadyForQuery, as does one raised by Sync itself. The result is valid until the
// next push.
func (a *answers) failed() []owed {
	a.copying = false
	if front := a.front().typ; front == wire.Sync || simple(front) {
		a.begun, a.erred = true, true
		return nil
	}
	from := a.head
	for !a.empty() && a.front().typ != wire.Sync && a.front().stray == 0 {
		a.leave()
	}
	a.skipping, a.erred = a.empty(), true
	return a.q[from:a.head]
}

// copyIn follows the server into copy-in mode, where it ignores a Sync that came
// behind the Execute and before the end of the data: libpq sends one before it
// can know that data is wanted. What else came behind it, before any Sync, ends the connection
// unless the copy fails before, and is discarded then: no data is wanted any more.
func (a *answers) copyIn() {
	a.copying = true
	kept := a.q[:a.head+1]
	early := a.unsure
	for i, t := range a.q[a.head+1:] {
		strays := t.typ != wire.Sync && t.how != made && a.unsure == early
		if ending(t.typ) || strays {
			a.copying = false
			a.skipping = strays && !ending(t.typ) && a.syncs == 0
			kept = append(kept, a.q[a.head+1+i:]...)
			break
		}
		if t.typ == wire.Sync {
			a.unsure++
			a.syncs--
			a.changes[t.scope]--
			continue
		}
		kept = append(kept, t)
	}
	if len(kept) < len(a.q) {
		clear(a.q[len(kept):])
		last := kept[len(kept)-1].typ
		a.open = last != wire.Sync && !simple(last)
	}
	a.q = kept
}
