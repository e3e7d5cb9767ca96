package session

import "github.com/pgpilot/pgpilot/libs/wire"

// answers is the queue of what a connection still owes: one entry per forwarded
// message that the server answers, named by the message's type, oldest first.
// The end of copied-in data (CopyDone, CopyFail) has an entry too, though it has
// no answer of its own: it tells a Sync the server ignores from one it answers.
type answers struct {
	q    []byte
	head int
	// simples is how many entries are a simple query or a function call.
	simples int
	// begun says that part of the front's answer has come.
	begun bool
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
const roomy = 4 << 10

func (a *answers) empty() bool { return a.head == len(a.q) }

func (a *answers) front() byte {
	if a.empty() {
		return 0
	}
	return a.q[a.head]
}

func (a *answers) push(typ byte) {
	switch {
	case a.empty():
		a.q, a.head = a.q[:0], 0
		if cap(a.q) > roomy {
			a.q = nil
		}
	case a.head >= roomy && a.head > len(a.q)/2: // never empty under constant pipelining
		a.q = a.q[:copy(a.q, a.q[a.head:])]
		a.head = 0
	}
	if simple(typ) {
		a.simples++
	}
	a.q = append(a.q, typ)
}

// next removes the front.
func (a *answers) next() {
	if simple(a.q[a.head]) {
		a.simples--
	}
	a.head++
	a.begun = false
}

// pop removes the front, and the ends of copied data that are then in front.
func (a *answers) pop() {
	a.next()
	for ending(a.front()) {
		a.next()
	}
}

// clear forgets everything: the connection is gone.
func (a *answers) clear() { *a = answers{q: a.q[:0]} }

func simple(typ byte) bool { return typ == wire.Query || typ == wire.FunctionCall }

func ending(typ byte) bool { return typ == wire.CopyDone || typ == wire.CopyFail }

// sent adds a forwarded message. Flush has no answer, and copied data belongs to
// the request that started the copying.
func (a *answers) sent(typ byte) {
	switch {
	case typ == wire.Flush || typ == wire.CopyData:
	case typ == wire.Sync && a.copying:
		a.unsure++
	case ending(typ):
		a.copying = false
		if !a.empty() {
			a.push(typ)
		}
	case a.skipping && typ != wire.Sync:
	default:
		a.skipping = false
		a.push(typ)
	}
}

// answered takes note of a server message. It reports false if the message
// answers nothing that was asked.
func (a *answers) answered(typ byte) bool {
	switch typ {
	case wire.NoticeResponse, wire.ParameterStatus, wire.NotificationResponse:
		return true // come at any time ("Message Flow: Asynchronous Operations")
	case wire.ErrorResponse:
		a.failed()
		return true
	case wire.ReadyForQuery:
		return a.ready()
	}
	ends, ok := part(a.front(), typ)
	if !ok {
		return false
	}
	a.begun = true
	if typ == wire.CopyInResponse {
		a.copyIn()
		return true
	}
	a.unsure = 0 // the server has got past them
	if ends {
		a.pop()
	}
	return true
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
	front := a.front()
	a.copying = false
	switch {
	case front == wire.Sync, simple(front) && (a.begun || a.unsure == 0):
		a.pop()
	case a.unsure > 0: // one of those was not ignored
		a.unsure--
		a.skipping = false
	default:
		return false
	}
	return true
}

// failed follows the server after an error. In an extended-protocol sequence it
// discards messages of every kind up to the next Sync; a simple query's error
// ends at its own ReadyForQuery, as does one raised by Sync itself.
func (a *answers) failed() {
	a.copying = false
	if front := a.front(); front == wire.Sync || simple(front) {
		a.begun = true
		return
	}
	for !a.empty() && a.front() != wire.Sync {
		a.next()
	}
	a.skipping = a.empty()
}

// copyIn follows the server into copy-in mode, where it ignores a Sync that came
// behind the Execute and before the end of the data: libpq sends one before it
// can know that data is wanted.
func (a *answers) copyIn() {
	a.copying = true
	kept := a.q[:a.head+1]
	for i, t := range a.q[a.head+1:] {
		if ending(t) {
			a.copying = false
			kept = append(kept, a.q[a.head+1+i:]...)
			break
		}
		if t == wire.Sync {
			a.unsure++
			continue
		}
		kept = append(kept, t)
	}
	a.q = kept
}
