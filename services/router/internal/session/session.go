package session

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// Settings are what the configuration says of all sessions. They are shared and
// may change between two calls.
type Settings struct {
	// Values hold for the session unless it says otherwise.
	Values override.Values
	// Bound is how old reads may be in the mode bounded, where nothing else is asked for.
	Bound time.Duration
	// PerSession keeps lent connections until the session ends (pool.mode session).
	PerSession bool
	// LazyBegin has the server's BEGIN wait for a statement that needs a server.
	LazyBegin bool
	// ReadOnlyOnReplicas has transactions that are read only run on replicas.
	ReadOnlyOnReplicas bool
	// MaxText is the longest statement text that is judged, in bytes.
	MaxText int
	// MaxStatements is how many prepared statements a server connection keeps.
	MaxStatements int
}

// Env is what a session needs to know from its owner. Like the session, it is
// used by one goroutine.
type Env interface {
	// Settings gives the current settings.
	Settings() *Settings
	// Verdict looks a statement up among the verdicts already known.
	Verdict(s *Session, text []byte) (verdict.Verdict, bool)
	// Current reports whether a verdict that was given earlier still holds.
	Current(v verdict.Verdict) bool
	// Parsings numbers what servers are told to parse, of all sessions.
	Parsings() *Parsings
	// Moment gives the time by the machine's clock (package staleness).
	Moment() time.Duration
	// Beginnings gives what the session's connections begin with.
	Beginnings() Beginnings
	// Serves reports whether the run of a server may serve a read of the session, which
	// has read there before.
	Serves(s *Session, by fence.Server) bool
	// Token writes a position as the token of a fence; empty if the primary's history is
	// not known.
	Token(s *Session, at lsn.Position) string
	// Unsuited says that a statement which should read cannot run on a replica.
	Unsuited(s *Session, text []byte)
	// Keep gives a copy of b that is the session's until Drop.
	Keep(b []byte) []byte
	Drop(b []byte)
}

// Session is one client's session.
type Session struct {
	env Env
	rec *handoff.Record

	phase Phase
	// steps grows with every change of phase: the owner sees by it that looking at
	// unread bytes again may help.
	steps uint64
	out   []Action
	// scratch holds answers made here until the owner has sent them.
	scratch []byte
	// built holds what was made for a server, likewise.
	built []byte

	// status is the transaction status last shown to the client; recovered says that a
	// transaction that had failed by then has been ended since.
	status    byte
	recovered bool
	block     block
	fence     fence.State
	// token is a statement about the fence at the head.
	token tokenWait
	// aside is the replica read since the primary was last used, if isAside.
	aside   fence.Server
	isAside bool
	// pins bind the session to its primary connection.
	pins pins
	held [slots]held
	// stepped says that the session may have moved a sequence since its last DISCARD ALL, on
	// a connection that it is still offered first.
	stepped bool
	// set is what the client has set; parsing identifies that of it which matters when
	// a statement is parsed. unfit are the backends that have refused to set it, or to read
	// as things are set.
	set     settings.Tracker
	parsing settings.Hash
	unfit   route.Set
	// strange are the names under which the connection in use had something that is not
	// the client's, and which it loses.
	strange []string
	// epoch counts the changes.
	epoch uint64
	// began and own are what the session asks of the router itself: since its startup,
	// and with SET.
	began, own override.Set
	// hint is what the statement at the head, or the one that runs, asks for. warned says
	// that the client has been told of a hint that is not understood.
	// admitted is how many of its tokens have been held against what exists.
	hint     *hints
	admitted int
	warned   bool
	// given says that the session was given another one's token: its reads are fenced in
	// every mode.
	given bool
	// among is the string at the head, if statements about that are among others in it.
	among *among
	// behind is a query about that whose turn to be answered has not come.
	behind *ownQuery
	// asked is what the last connection was asked for; applies counts those lost since
	// while they were given the settings.
	asked   route.Request
	applies int
	// interrupted says that the client has asked to cancel the statement, since that has its
	// connection: it does not go on where nothing of it runs yet.
	interrupted bool
	// at is the slot in use while Granted or Busy.
	at Slot

	// verdict is of the statement at the head of the unread bytes; known says that
	// it is there.
	verdict verdict.Verdict
	known   bool
	problem Problem
	// seq is the extended-protocol sequence at the head.
	seq sequence

	// named and unnamed are what the client has prepared; spare is a former unnamed
	// one, to be used again.
	named          map[string]*Statement
	unnamed, spare *Statement
	// rows is what rows were described as last.
	rows lastRows
	// latest is the portal bound last to a statement of a server's, here are those of
	// statements that the router executes.
	// forgetful says that a portal bound before that one may remove all prepared statements.
	latest    portal
	here      portals
	forgetful bool
	// stale says that the client has no unnamed portal any more, but the server may have.
	stale bool
	// sql says that some of named may be prepared with SQL. executing is the one that the
	// EXECUTE at the head runs, nil if that is not known; refreshing is one whose verdict
	// it waits for, its own being outer, and refreshed one that has just got it.
	sql                              bool
	executing, refreshing, refreshed *Statement
	outer                            verdict.Verdict
	// equipping is what the connection in use is given for the request at the head,
	// equipped says that it has been.
	equipping equipping
	equipped  bool
	// missing is a statement that the connection in use prepares before the client's
	// messages go on: as the client knows it, if exact.
	missing *Statement
	exact   bool
	// asking says that a verdict on a Parse in the middle of a sequence has been asked
	// for.
	asking bool
	// sweeps says that what is being answered may remove prepared statements, or
	// change what statements mean that are parsed behind it.
	sweeps bool
	// dim says that it is not known what is set until the transaction at hand ends: code in it
	// may have set anything.
	dim bool
	// roams says that what is being answered may lead search_path to temporary tables.
	roams bool
	// amending is how it gets on that has been refused its settings.
	amending amending
	// retunes says that it changes what the session asks of the router.
	retunes bool
	// altered says that a statement of the open transaction may have changed what a role's
	// or a database's sessions begin with.
	altered bool

	owed answers
	// readies is how many ReadyForQuery are held back until it is known whether they are the
	// client's, discards says that what is left of its sequence is not executed.
	readies  int
	discards bool
	// blocked says that the client's next message must wait until the sequences before
	// its own have been answered; forgetting, that it waits for the open one, too.
	blocked, forgetting bool
	// extended says that what is being answered began with the extended protocol:
	// the client's messages are forwarded as they come.
	extended bool
	// taken says that it is a whole sequence, which the client has no more to say to.
	taken bool
	// written says that what is being answered may have written. opaque says that it
	// may have opened a transaction.
	written, opaque bool

	// fromClient and fromServer are the rest, in bytes, of a message whose beginning
	// has been handled. discard says that the client's is not forwarded, hidden that the
	// server's is not shown.
	fromClient, fromServer int
	discard, hidden        bool

	// again is a copy of the read that is running; replayed is how much of it has been
	// sent, and retry says that none of its answer has been shown, so that it may run
	// elsewhere. tried are the backends it has failed on.
	again    []byte
	replayed int
	retry    bool
	tried    route.Set
	// retreating says that it has failed on a replica, whose answer is being skipped,
	// doubted that it may do more than read: the failure says so.
	retreating, doubted bool
	// fatal says that the last error shown to the client was FATAL: the server ends
	// the connection, and so does the router.
	fatal bool
	// word is what the server said when it ended the connection, if it did.
	word *Problem
	// leaving says that the router is stopping: the session ends when it is idle.
	leaving bool

	shown []handoff.Parameter
	last  handoff.Route
	// escapes says that backslashes escape in ordinary strings, as its client was told, or on
	// a connection that it has had: servers may read its texts otherwise than they are read
	// here, so that nothing is taken from these any more.
	escapes bool
}

// bound reports whether the session has something in its connection that another
// one would not have: an open transaction, or state of the server session that it
// relies on.
func (s *Session) bound(slot Slot) bool {
	h := &s.held[slot]
	switch {
	case !h.ok:
		return false
	case slot == ReplicaSlot && s.block.replica && s.movable():
		return s.fatal || s.phase == Busy && !s.retry // part of an answer has been shown
	case slot == s.at && s.inTransaction():
		return true
	}
	return slot == PrimarySlot && h.used && (s.pins != 0 || s.env.Settings().PerSession)
}

// held is a connection the session holds.
type held struct {
	ok   bool
	used bool // something may have been left behind in it
	// roleless says that a DISCARD ALL may have left it without the role that its login begins
	// with: nothing that a session has, but the next one must not get it so.
	roleless bool
	// indelible says that something has been left in it that no reset removes.
	indelible bool
	// stepped says that a sequence may have been moved.
	stepped bool
	by      fence.Server
	// timeline is what a replica was proven to be on.
	timeline lsn.Timeline
	// replayed and asOf are what a replica was known to show when it was lent: all up to that
	// position, and all that was acknowledged before that moment.
	replayed lsn.Position
	asOf     time.Duration
	// lent is the number of what servers had been told to parse by then.
	lent uint64
	// statements is what it holds of prepared statements.
	statements *Statements
	// settings is which settings it has.
	settings *settings.Hash
	// reported is what its server has reported; nil where nobody wants to know.
	reported *Reported
}

// note takes the body of a ParameterStatus message.
func (h *held) note(body []byte) {
	if h.reported != nil {
		h.reported.Note(body)
	}
}

// New makes the session of a record that comes from a login. Start begins it.
func New(rec *handoff.Record, env Env) *Session {
	return Arrive(rec, env, Arrival{})
}

// Record gives the record the session was made of.
func (s *Session) Record() *handoff.Record { return s.rec }

// Phase gives what the session waits for.
func (s *Session) Phase() Phase { return s.phase }

// Steps grows with every change of phase.
func (s *Session) Steps() uint64 { return s.steps }

// Settings identifies what the client has set: a connection that has it needs not be
// given it.
func (s *Session) Settings() settings.Hash { return s.set.List().Hash() }

// Fence gives the session's fence.
func (s *Session) Fence() *fence.State { return &s.fence }

// Escapes reports whether servers may read backslashes in the session's ordinary strings as
// escapes: then nobody can say what its statements do.
func (s *Session) Escapes() bool { return s.escapes }

// Slot gives the connection in use while the session is Granted or Busy.
func (s *Session) Slot() Slot { return s.at }

// Holds reports whether the session holds a connection in the slot.
func (s *Session) Holds(slot Slot) bool { return s.held[slot].ok }

// Reruns reports whether what runs is a read of whose answer nothing has been
// shown, so that it can run elsewhere.
func (s *Session) Reruns() bool { return s.phase == Busy && s.retry }

// Actions gives what is to be done, oldest first. Calls made while they are
// performed add to them.
func (s *Session) Actions() []Action { return s.out }

// Reset forgets the actions, all of them performed.
func (s *Session) Reset() {
	s.out = s.out[:0]
	s.scratch = s.scratch[:0]
	s.built = s.built[:0]
	if cap(s.scratch) > roomy {
		s.scratch = nil
	}
	if cap(s.built) > roomy {
		s.built = nil
	}
}

// Reads reports whether the session looks at further bytes of the client now.
func (s *Session) Reads() bool {
	switch s.phase {
	case Idle, Granted, Refused, Skipping, Passing:
		return true
	case Busy:
		return s.fromClient > 0 || s.owed.copying ||
			s.extended && !s.taken && s.owed.simples == 0 && s.missing == nil && !s.blocked && !s.asking
	}
	return false
}

// Start begins a session. params are what its servers report, as far as that is
// known already; otherwise a connection is asked for.
func (s *Session) Start(params []handoff.Parameter) {
	if s.problem.Code != "" {
		s.finish(&s.problem)
		return
	}
	if s.rec.Live != nil {
		s.goesOn()
		return
	}
	if s.rec.Replication != "" {
		s.passes()
		return
	}
	if params != nil {
		s.greet(params)
		return
	}
	s.acquire(route.Request{Reason: route.ReasonLogin})
	s.enter(Login)
}

func (s *Session) do(a Action) { s.out = append(s.out, a) }

// toClient sends bytes made in scratch from the given offset.
func (s *Session) toClient(from int) {
	s.do(Action{Op: OpToClient, Data: s.scratch[from:]})
}

func (s *Session) acquire(r route.Request) {
	if s.stops() {
		return
	}
	v := s.wanted()
	r.Mode = v.Mode
	r.Strict = r.Mode.Fenced()
	r.Bound = s.freshest(v)
	r.Strict = r.Strict || s.given
	if h := s.hint; h != nil {
		r.Hinted = h.set.Routed()
		r.Strict = r.Strict || len(h.tokens) > 0
	}
	s.inBlock(&r)
	r.Fence = s.fence.Position()
	r.Tried = s.tried | s.unfit
	r.Again = s.again != nil
	r.Shape = s.verdict.Fingerprint
	s.asked = r
	s.do(Action{Op: OpAcquire, Request: &s.asked})
	s.enter(Queued)
}
