package handoff

import (
	"errors"
	"fmt"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Live is what a router knows of a session it has served, at a moment when nothing
// of a request is under way.
type Live struct {
	// Shown are the ParameterStatus values the client was last told.
	Shown []Parameter `json:"shown,omitempty"`
	// Greeting is what the primary reports to logins like this one, before anything is set,
	// if that is known: replicas are given what of it decides how values look.
	Greeting []Parameter `json:"greeting,omitempty"`
	// Fence is the position the session's reads need.
	Fence Fence `json:"fence"`
	// Pin says why the session is bound to its primary connection, empty if it is
	// not.
	Pin string `json:"pin,omitempty"`
	// LastRoute is what SHOW pgpilot.last_route answers.
	LastRoute *Route `json:"last_route,omitempty"`
	// Settings are the run-time parameters that the client has set with SET, in the
	// order in which it has, as far as they have been committed.
	Settings []Setting `json:"settings,omitempty"`
	// Prepared are the statements that the client has prepared with Parse (PostgreSQL
	// documentation: "Message Flow: Extended Query"), the unnamed one with an empty
	// name, and with PREPARE.
	Prepared []Prepared `json:"prepared,omitempty"`

	// Status is the transaction status last shown, as in ReadyForQuery: "I", "T" or
	// "E"; empty: "I".
	Status string `json:"status,omitempty"`
	// Skipping says that a sequence of the extended protocol has failed: what the
	// client sends is ignored up to its Sync.
	Skipping bool `json:"skipping,omitempty"`
	// Written says that the transaction that is open may have written.
	Written bool `json:"written,omitempty"`
	// Block is the transaction block that has begun at the router, nil for none.
	Block *Block `json:"block,omitempty"`
	// Levels are what the transaction that is open, and each of its savepoints, has set.
	Levels []Level `json:"levels,omitempty"`
	// Channels are those that the session listens on.
	Channels []string `json:"channels,omitempty"`
	// Lost says that what is set is not known, but by the session's connection.
	Lost bool `json:"lost,omitempty"`
	// Epoch counts the changes of what is set.
	Epoch uint64 `json:"epoch,omitempty"`
	// Portals are those of the open transaction that the router knows, by what they run.
	Portals []Portal `json:"portals,omitempty"`
	// Leases are the server connections that travel with the session, in the order of
	// their descriptors, which follow the client's.
	Leases []Lease `json:"leases,omitempty"`
	// Stale says that the client has no unnamed portal any more, but its connection may.
	Stale bool `json:"stale,omitempty"`
	// Canceled says that a cancel request has come for what is unread.
	Canceled bool `json:"canceled,omitempty"`
	// Leaving says that it is to end when it is idle, wherever it is.
	Leaving bool `json:"leaving,omitempty"`
	// Warned says that the client has been told of a hint that is not understood.
	Warned bool `json:"warned,omitempty"`
	// WaitedMicros is how long what is at the head of the unread bytes has waited for a
	// server connection.
	WaitedMicros int64 `json:"waited_us,omitempty"`
}

// Block is a transaction block that has begun at the router.
type Block struct {
	// State says what the servers know of it: "opened" and "fallen", one that has failed,
	// are known to none, of one that has "begun" BEGIN has been sent.
	State string `json:"state"`
	// Begin is the BEGIN with its characteristics.
	Begin string `json:"begin"`
	// Portal says that the unnamed portal is that of a statement about the block.
	Portal bool `json:"portal,omitempty"`
	// IdleMicros is for how long the session may be idle in it while no server knows of
	// it; 0: for any time.
	IdleMicros int64 `json:"idle_us,omitempty"`
	// Ran says that it has read on a replica, and Timeline on which timeline, 0 where that
	// does not matter any more.
	Ran      bool         `json:"ran,omitempty"`
	Timeline lsn.Timeline `json:"timeline,omitempty"`
}

// check reports whether no server knows of the block, which may be nil.
func (b *Block) check(status string) (here bool, err error) {
	switch {
	case b == nil:
		return false, nil
	case b.State == "opened" && status == "T", b.State == "fallen" && status == "E":
		return true, nil
	case b.State == "begun" && (status == "T" || status == "E"):
		return false, nil
	}
	return false, fmt.Errorf("a transaction block is %q while the status is %q", b.State, status)
}

// Setting is a run-time parameter as its client has set it.
type Setting struct {
	// Name is the parameter's, in lower case.
	Name string `json:"name"`
	// SQL is what follows the word SET, in the client's encoding: every byte of it is
	// ASCII unless that is UTF8. Of a parameter of pgpilot's own it is the value.
	SQL string `json:"sql"`
}

// Level is a transaction, or one of its savepoints.
type Level struct {
	// Savepoint is its name, empty for the transaction itself.
	Savepoint string   `json:"savepoint,omitempty"`
	Changes   []Change `json:"changes,omitempty"`
}

// Change is what a transaction has changed.
type Change struct {
	Setting
	// Kind is how: "set", "local", "listen" or "unlisten"; for the latter two Name is the
	// channel's.
	Kind string `json:"kind"`
}

// Prepared is a statement that a client has prepared. Name and text are in the
// client's encoding.
type Prepared struct {
	Name []byte `json:"name,omitempty"`
	Text []byte `json:"text"`
	// Types are the oids of its parameters' types as far as Parse gave them.
	Types []uint32 `json:"types,omitempty"`
	// Kind, Effects and Fingerprint are its verdict. A verdict that the receiver does
	// not understand counts as that of a statement nobody has judged.
	Kind        string   `json:"kind"`
	Effects     []string `json:"effects,omitempty"`
	Fingerprint uint64   `json:"fingerprint,omitempty"`
	// Params and Rows are hashes of the descriptions that the client was told last;
	// empty: it was told none.
	Params []byte `json:"params,omitempty"`
	Rows   []byte `json:"rows,omitempty"`

	// Environment is a hash of what was set when it was parsed, as far as that matters.
	// Passing says that it is no longer that once what was set ends.
	Environment []byte `json:"environment,omitempty"`
	Passing     bool   `json:"passing,omitempty"`
	// Followed says that it is followed what the statement does to settings.
	Followed bool `json:"followed,omitempty"`
	// Local says that the router executes it itself; Forgets, that the server does and
	// has no prepared statements afterwards.
	Local   bool `json:"local,omitempty"`
	Forgets bool `json:"forgets,omitempty"`
	// Raw says that it lives on the leased connection, under the client's own name.
	Raw bool `json:"raw,omitempty"`
	// SQL says that it was prepared with PREPARE, whose text it has.
	SQL bool `json:"sql,omitempty"`
	// Current says that what the leased connection holds of it is not older than the client
	// knows it.
	Current bool `json:"current,omitempty"`
	// Closed says that no name stands for it any longer: only a portal runs it.
	Closed bool `json:"closed,omitempty"`
}

// Portal is one that the client has bound in the transaction that is open.
type Portal struct {
	Name []byte `json:"name,omitempty"`
	// Statement is the place of what it runs in Live.Prepared.
	Statement int `json:"statement"`
	// Ran says that it has been executed.
	Ran bool `json:"ran,omitempty"`
	// Depth is how many savepoints the transaction had when it was bound.
	Depth int `json:"depth,omitempty"`
	// Commands are what it does to settings.
	Commands []Command `json:"commands,omitempty"`
	// Formats are those of its columns as in Bind, where the router gives its rows.
	Formats []int16 `json:"formats,omitempty"`
}

// Command is what a statement does to settings: "set", "local", "begin", "commit",
// "rollback", "savepoint", "release", "rollback_to", "listen", "unlisten", "prepare" or
// "none".
type Command struct {
	Kind string `json:"kind"`
	// Name is the savepoint's or the channel's.
	Name    string    `json:"name,omitempty"`
	Changes []Setting `json:"changes,omitempty"`
}

// Fence is a session's fence.
type Fence struct {
	Position lsn.Position `json:"position"`
	// Dirty says that a statement that may have written is not settled yet; Backend and
	// Writer are the server that answered it, and its incarnation. Both are empty if there
	// were several.
	Dirty   bool            `json:"dirty,omitempty"`
	Backend string          `json:"backend,omitempty"`
	Writer  lsn.Incarnation `json:"writer"`
	// Given says that the position covers a token that the session was given, so that it
	// counts in every mode.
	Given bool `json:"given,omitempty"`
	// Seen is the server that the session has read from last and, if Unsettled, may only
	// read from until a probe has settled what it saw there.
	Seen *Seen `json:"seen,omitempty"`
	// Aside says that a replica has been read since the primary was last used: that may
	// not show yet what the replica has shown.
	Aside bool `json:"aside,omitempty"`
}

// Seen is where a session has read.
type Seen struct {
	Backend string          `json:"backend,omitempty"`
	Server  lsn.Incarnation `json:"server"`
	// Timeline is the replica's, zero for the primary.
	Timeline  lsn.Timeline `json:"timeline,omitempty"`
	Unsettled bool         `json:"unsettled,omitempty"`
}

// Route is where a statement ran and why.
type Route struct {
	Backend string       `json:"backend"`
	Role    string       `json:"role"`
	Reason  string       `json:"reason"`
	Fence   lsn.Position `json:"fence"`
	Replay  lsn.Position `json:"replay"`
	// WaitedMicros is how long the statement waited for its fence and a connection.
	WaitedMicros int64 `json:"waited_us"`
}

// Lease is a server connection that a session holds. It has been made with the
// session's user, database and startup parameters, which decide who may have it next.
type Lease struct {
	// Idle says that the session does not hold it, but is to get it back: only there is
	// known what the session's sequences have given.
	Idle bool `json:"idle,omitempty"`
	// Spare says of an idle one that there is nothing of the session's in it: it comes along
	// so that the session need not wait until one like it is made.
	Spare bool `json:"spare,omitempty"`
	// Replica says that it is held as the connection to a replica.
	Replica bool `json:"replica,omitempty"`
	// Backend and Address are the server's in the configuration.
	Backend string `json:"backend"`
	Address string `json:"address"`
	// Run is the incarnation of the server that the connection belongs to.
	Run lsn.Incarnation `json:"run"`
	// PID and Secret are the server's cancel key.
	PID    uint32 `json:"pid"`
	Secret []byte `json:"secret"`
	// Parameters are what the server reported when the connection was made.
	Parameters []Parameter `json:"parameters,omitempty"`
	// Given are those of its parameters that it was given as a connection to a replica, to
	// answer like the primary; Standby says that its server was in recovery then.
	Given   []Parameter `json:"given,omitempty"`
	Standby bool        `json:"standby,omitempty"`
	// Reported is what it has reported since of those that decide how values look and how
	// strings are read: the last value of each.
	Reported []Parameter `json:"reported,omitempty"`
	// Begins is what its transactions begin with, nil if that is not known.
	Begins *Begins `json:"begins,omitempty"`
	// AgeMicros is how long ago the connection was made.
	AgeMicros int64 `json:"age_us,omitempty"`
	// Stored identifies what was stored for its role and database (ALTER ROLE … SET, ALTER
	// DATABASE … SET) when it was made, empty if that is not known.
	Stored string `json:"stored,omitempty"`
	// Used says that something may have been left behind in it, Stepped that a sequence
	// may have been moved.
	Used    bool `json:"used,omitempty"`
	Stepped bool `json:"stepped,omitempty"`
	// Generation is that of the database's verdicts by which what has run on it was judged; of
	// one that is Soiled, some of it by earlier ones: it is cleaned before anybody else gets it.
	Generation uint64 `json:"generation,omitempty"`
	Soiled     bool   `json:"soiled,omitempty"`
	// Indelible says that something has been left in it that no reset removes.
	Indelible bool `json:"indelible,omitempty"`
	// Settings is a hash of what is set on it.
	Settings []byte `json:"settings,omitempty"`
	// Statements are the prepared statements that it holds, by the names they have there,
	// the one unused for longest first.
	Statements []Held `json:"statements,omitempty"`
	// Unnamed is the unnamed statement, if there is one, with a hash of its content for a
	// name.
	Unnamed *Held `json:"unnamed,omitempty"`
	// Named is what it holds under names that clients gave.
	Named []Named `json:"named,omitempty"`
}

// Begins are run-time parameters of transactions as a connection has them when it is new,
// as SHOW gives them: idle_in_transaction_session_timeout, transaction_timeout (empty before
// release 17), default_transaction_isolation, and search_path (empty in records of routers that
// did not ask for it).
type Begins struct {
	IdleInTransaction string `json:"idle_in_transaction_session_timeout"`
	Transaction       string `json:"transaction_timeout,omitempty"`
	Isolation         string `json:"default_transaction_isolation"`
	SearchPath        string `json:"search_path,omitempty"`
}

// Named is a prepared statement of a server connection under the name that its client
// gave.
type Named struct {
	Name []byte `json:"name"`
	// Content is a hash of it.
	Content []byte `json:"content"`
}

// Held is a prepared statement of a server connection.
type Held struct {
	Name []byte `json:"name"`
	// Stale says that the server refuses to run it as it is there.
	Stale bool `json:"stale,omitempty"`
	// Params and Rows are hashes of how the server has described it.
	Params []byte `json:"params,omitempty"`
	Rows   []byte `json:"rows,omitempty"`
}

// check refuses what no session can be in.
func (l *Live) check() error {
	held := 0
	for i := range l.Leases {
		if !l.Leases[i].Idle {
			held++
		}
	}
	switch l.Status {
	case "", "I", "T", "E":
	default:
		return fmt.Errorf("transaction status %q is not I, T or E", l.Status)
	}
	here, err := l.Block.check(l.Status)
	if err != nil {
		return err
	}
	switch {
	case len(l.Leases) > MaxFDs-1:
		return fmt.Errorf("%d server connections are more than %d", len(l.Leases), MaxFDs-1)
	case held > 1:
		return errors.New("it holds several server connections")
	case held == 0 && !here && (l.Status == "T" || l.Status == "E"):
		return errors.New("a transaction is open, but there is no server connection")
	case held == 0 && l.Pin != "":
		return errors.New("it is bound to a server connection that is not there")
	}
	for _, p := range l.Portals {
		if p.Statement < 0 || p.Statement >= len(l.Prepared) {
			return fmt.Errorf("a portal runs statement %d of %d", p.Statement, len(l.Prepared))
		}
	}
	return nil
}
