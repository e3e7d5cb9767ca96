package session

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
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
		State: blockStates[b.state], Begin: string(b.modes.AppendBegin(nil)), Portal: b.portal, IdleMicros: b.limit.Microseconds(), Ran: b.ran,
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
	b.ran = t.Ran
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

// queryBlock answers a simple query that is about a block which no server has or needs
// to have, and reports whether it was one.
func (s *Session) queryBlock(text []byte) bool {
	if s.block.here() && len(bytes.Trim(text, space+"\f\v;")) == 0 {
		s.simpleHere()
		s.sayDone(append(s.scratch, wire.EmptyQueryResponse, 0, 0, 0, 4))
		return true
	}
	b, ok := settings.ParseBlock(text)
	if !ok || !s.emulates(&b) {
		return false
	}
	s.simpleHere()
	s.block.portal = false
	s.sayDone(appendComplete(s.scratch, s.runBlock(&b)))
	return true
}

// simpleHere notes a simple query that no server gets: it ends the unnamed statement and
// portal all the same.
func (s *Session) simpleHere() {
	s.unnamed = nil
	s.endUnnamedPortal()
}

// sayDone ends a request that has been answered here; b is the scratch with the answer.
func (s *Session) sayDone(b []byte) {
	from := len(s.scratch)
	s.scratch = wire.AppendReadyForQuery(b, s.status)
	s.toClient(from)
	s.idle()
}

// emulates reports whether a statement about a block can be executed here.
func (s *Session) emulates(b *settings.Block) bool {
	switch s.block.state {
	case opened:
		// Of the first a server would warn, and refuse the second.
		return b.Kind != settings.BlockBegin && (b.Kind != settings.BlockSet || !s.block.ran)
	case fallen:
		return b.Kind == settings.BlockCommit || b.Kind == settings.BlockRollback
	case begun:
		return s.block.replica && (b.Kind == settings.BlockCommit || b.Kind == settings.BlockRollback)
	}
	return b.Kind == settings.BlockBegin && s.lazy()
}

// runBlock executes it and gives its command tag.
func (s *Session) runBlock(b *settings.Block) string {
	tag := b.Tag
	if s.block.state == noBlock {
		s.block.limit, _ = s.idleLimit()
	}
	if s.block.replica {
		s.leaveReplica()
	}
	switch {
	case b.Kind == settings.BlockBegin, b.Kind == settings.BlockSet:
		s.block.modes = b.Under(s.block.modes)
	case s.block.state == fallen:
		tag = "ROLLBACK"
		fallthrough
	default:
		s.endPortals()
		s.endSettings(b, tag)
		if !b.Chain {
			s.block, s.status = block{}, wire.Idle
			return tag
		}
		s.block.ran = false
	}
	s.block.state, s.status = opened, wire.InTransaction
	return tag
}

// endSettings ends what has been set in a block that no server has: parameters of the
// router's own.
func (s *Session) endSettings(b *settings.Block, tag string) {
	if !s.set.Begun() {
		s.set.Ready(true)
		return
	}
	kind := settings.Commit
	if b.Kind == settings.BlockRollback {
		kind = settings.Rollback
	}
	s.set.Ran(&settings.Command{Kind: kind}, []byte(tag))
	s.set.Ready(true)
	s.changed()
}

// opens reports whether a sequence goes on behind the BEGIN of a transaction that may be a
// replica's, as drivers send it: what follows is routed by itself.
func (o *oneStatement) opens() bool {
	return o.ran && o.block.Kind == settings.BlockBegin && o.s.onlyReads(o.block.Modes)
}

// sequenceHere answers what has been read of a sequence of the extended protocol, to its
// end or up to a message that is another statement's, and gives its length.
func (s *Session) sequenceHere(o *oneStatement, whole bool) int {
	if o.parsed {
		s.prepareHere(o.name, o.body, o.text)
	}
	s.seq.scanned, s.known = 0, false
	answer := s.scratch
	tag := s.runBlock(&o.block)
	s.block.portal = true
	for _, typ := range o.asked[:o.count] {
		switch typ {
		case wire.Parse:
			answer = append(answer, wire.ParseComplete, 0, 0, 0, 4)
		case wire.ParameterDescription:
			answer = append(answer, wire.ParameterDescription, 0, 0, 0, 6, 0, 0, wire.NoData, 0, 0, 0, 4)
		case wire.Bind:
			answer = append(answer, wire.BindComplete, 0, 0, 0, 4)
		case wire.Describe:
			answer = append(answer, wire.NoData, 0, 0, 0, 4)
		case wire.Execute:
			answer = appendComplete(answer, tag)
		}
	}
	if whole {
		s.sayDone(answer)
		return o.size
	}
	from := len(s.scratch)
	s.scratch = answer
	s.toClient(from)
	s.idle()
	return o.size
}

// prepareHere notes a statement that no server has parsed yet.
func (s *Session) prepareHere(name, body, text []byte) {
	st := &Statement{}
	st.set(body, len(text), nil, s.environment())
	st.verdict = s.seq.parses[0].verdict
	st.cmds = s.commands(text, st.verdict)
	if len(name) > 0 {
		st.name(string(name))
	}
	s.define(string(name), st)
}

// oneStatement is a sequence that parses, if it does, and runs one statement about a
// block, without parameters and as the unnamed portal.
type oneStatement struct {
	s *Session
	// parsed says that it begins with a Parse, of which the others are the parts.
	parsed           bool
	name, body, text []byte
	block            settings.Block
	// asked are the types of its messages, of which there are count; ParameterDescription
	// stands for a Describe of the statement.
	asked [8]byte
	count int
	// size is its length in bytes.
	size int
	// known says that it is known what is run, bound and ran how far that is.
	known, bound, ran bool
}

// reading is how far a sequence is one.
type reading uint8

const (
	another    reading = iota // it is none
	unfinished                // so far
	finished
)

// read looks at the messages at the start of b.
func (o *oneStatement) read(b []byte) reading {
	for {
		typ, total, err := wire.Header(b[o.size:])
		switch {
		case err != nil || o.count == len(o.asked) || o.ran && total > 0 && typ != wire.Sync:
			return another
		case total == 0 || total > len(b)-o.size:
			if !o.known {
				return another // as yet
			}
			return unfinished
		}
		msg := b[o.size : o.size+total]
		ok := false
		switch typ {
		case wire.Parse:
			ok = o.parse(msg)
		case wire.Describe:
			ok = o.describe(msg, &typ)
		case wire.Bind:
			ok = o.bind(msg)
		case wire.Execute:
			portal, _, is := cutString(msg[wire.HeaderSize:])
			ok = is && o.bound && len(portal) == 0 && total == wire.HeaderSize+1+4
			o.ran = ok
		case wire.Sync:
			o.size += total
			if o.ran && total == wire.HeaderSize {
				return finished
			}
		}
		if !ok {
			return another
		}
		o.size += total
		o.asked[o.count] = typ
		o.count++
	}
}

func (o *oneStatement) parse(msg []byte) bool {
	name, text, _, ok := splitParse(msg)
	if !ok || o.known || len(name) > maxName || len(name) > 0 && o.s.named[string(name)] != nil {
		return false
	}
	body := msg[wire.HeaderSize+len(name)+1:]
	o.parsed, o.known, o.name, o.text, o.body = true, true, name, text, body
	return o.understood(body, len(text))
}

func (o *oneStatement) describe(msg []byte, as *byte) bool {
	kind, name, ok := splitTarget(msg)
	if ok && kind == 'S' {
		*as = wire.ParameterDescription
		return o.known && bytes.Equal(name, o.name)
	}
	return ok && kind == 'P' && o.bound && len(name) == 0
}

func (o *oneStatement) bind(msg []byte) bool {
	portal, name, rest, ok := splitBind(msg)
	if !ok || o.bound || len(portal) > 0 || !noParameters(rest) {
		return false
	}
	o.bound = true
	if o.known {
		return bytes.Equal(name, o.name)
	}
	o.known, o.name = true, name
	return o.prepared(name)
}

// prepared reports whether the client has prepared one under the name.
func (o *oneStatement) prepared(name []byte) bool {
	st := o.s.statement(name)
	return st != nil && !st.raw && st.local.kind == notLocal && o.understood(st.body, st.text)
}

// understood reads the body of a Parse.
func (o *oneStatement) understood(body []byte, text int) (ok bool) {
	if len(body) != text+1+2 || body[text+1] != 0 || body[text+2] != 0 {
		return false // with types of parameters
	}
	o.block, ok = settings.ParseBlock(body[:text])
	return ok
}

// noParameters reports whether the end of a Bind, behind the names, has no parameters
// and at most one format for each of its lists.
func noParameters(b []byte) bool {
	for i := range 3 {
		if len(b) < 2 {
			return false
		}
		n := int(binary.BigEndian.Uint16(b))
		b = b[2:]
		if n > 1 || n > 0 && i < 2 || len(b) < 2*n {
			return false
		}
		for range n {
			if format := binary.BigEndian.Uint16(b); format > 1 {
				return false
			}
			b = b[2:]
		}
	}
	return len(b) == 0
}

// sendBegin begins the block on the granted connection, in front of the statement at the
// head. They leave in one write, as messages of the extended protocol: if BEGIN fails,
// the server discards what is behind it up to the next Sync.
func (s *Session) sendBegin(run *forwarding, query bool) {
	if s.block.state != opened {
		return
	}
	s.block.state, s.block.unsure, s.block.replica = begun, true, s.at == ReplicaSlot
	s.held[s.at].statements.dropUnnamed()
	texts := [...][]byte{s.block.modes.AppendBegin(nil), snapshot}
	sent := texts[:1]
	if s.block.ran {
		sent = texts[:]
	}
	for range sent {
		for _, typ := range [...]byte{wire.Parse, wire.Bind, wire.Execute} {
			s.owed.sent(owed{typ: typ, how: hide, begins: true})
		}
	}
	own := query || s.block.portal // a simple query ends the unnamed portal by itself
	if !own {
		s.owed.sent(owed{typ: wire.Close, how: hide})
	}
	run.build(func(b []byte) []byte {
		for _, text := range sent {
			from := len(b)
			b = append(b, wire.Parse, 0, 0, 0, 0, 0)
			b = append(append(b, text...), 0, 0, 0)
			binary.BigEndian.PutUint32(b[from+1:], uint32(len(b)-from-1))
			b = append(b, wire.Bind, 0, 0, 0, 4+2+6, 0, 0, 0, 0, 0, 0, 0, 0)
			b = append(b, wire.Execute, 0, 0, 0, 4+1+4, 0, 0, 0, 0, 0)
		}
		if !own {
			b = append(b, wire.Close, 0, 0, 0, 6, 'P', 0)
		}
		return b
	})
}

// beganHere follows an answer to the messages of sendBegin.
func (s *Session) beganHere(o *owed, typ byte) {
	if o.begins && typ == wire.CommandComplete {
		s.block.unsure = false
	}
}

// fell notes that the server has refused to begin the block. The statement behind BEGIN
// has been discarded.
func (s *Session) fell() {
	s.block.state, s.block.unsure, s.block.replica, s.status = fallen, false, false, wire.Failed
	if !s.extended {
		s.block.resync = true
		s.resync()
	}
}

// resync sends the Sync that a server waits for which has discarded a simple query, once
// all of that query has been sent.
func (s *Session) resync() {
	if !s.block.resync || s.fromClient > 0 {
		return
	}
	s.block.resync = false
	s.owed.sent(owed{typ: wire.Sync})
	from := len(s.built)
	s.built = append(s.built, wire.Sync, 0, 0, 0, 4)
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
}

// fallHere notes that the statement at the head has failed before a server had its
// block.
func (s *Session) fallHere() {
	if s.block.replica {
		s.leaveReplica()
	}
	if s.block.state == opened {
		s.block.state, s.status = fallen, wire.Failed
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

// A block that has failed where no server had it is made on the primary, and made to fail
// there, when the client does anything in it but to end it: what a server says in a failed
// transaction depends on what it is told.

// failThere does that on the connection in use.
func (s *Session) failThere() {
	s.enter(Failing)
	s.held[s.at].statements.dropUnnamed()
	from := len(s.built)
	s.built = append(s.built, wire.Query, 0, 0, 0, 0)
	s.built = append(s.block.modes.AppendBegin(s.built), ";ROLLBACK TO "+noStatement+"\x00"...)
	binary.BigEndian.PutUint32(s.built[from+1:], uint32(len(s.built)-from-1))
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
}

// fromFailing looks at the answer.
func (s *Session) fromFailing(b []byte) int {
	used := 0
	for s.phase == Failing {
		typ, total, err := wire.Header(b[used:])
		if err == nil && (total == 0 || total > len(b)-used && total <= maxHeld) {
			return used
		}
		if err != nil || total > len(b)-used {
			s.ServerLost(s.at)
			return len(b)
		}
		msg := b[used : used+total]
		used += total
		switch typ {
		case wire.CommandComplete:
		case wire.ParameterStatus:
			s.reported(msg)
		case wire.NoticeResponse, wire.ErrorResponse:
			if farewell(typ, msg) {
				s.ServerLost(s.at)
				return len(b)
			}
		case wire.ReadyForQuery:
			if len(msg) <= wire.HeaderSize || msg[wire.HeaderSize] != wire.Failed {
				s.ServerLost(s.at)
				return len(b)
			}
			s.applies = 0
			s.block.state = begun
			s.enter(Granted)
		default:
			s.ServerLost(s.at)
			return len(b)
		}
	}
	return used
}

// failElsewhere has the statement at the head go on without the connection that was lost
// while its transaction was made to fail.
func (s *Session) failElsewhere() {
	s.applies++
	if s.applies > maxApplies {
		s.applies = 0
		s.enter(Queued)
		s.Refuse(&lostConnection)
		return
	}
	s.routeBlock()
}
