package session

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// Op is what the owner is to do.
type Op uint8

const (
	// OpToClient: send Data to the client.
	OpToClient Op = iota
	// OpToServer: send Data to the connection in Slot.
	OpToServer
	// OpJudge: get a verdict on Data, a statement's text, then call Judged.
	OpJudge
	// OpAcquire: lend a connection as Request asks, then call Granted or Refuse. The
	// session may hold one that serves; then that one is granted again.
	OpAcquire
	// OpWithdraw: forget the last OpJudge, OpAcquire, OpAwaitFence or OpAdmit.
	OpWithdraw
	// OpRelease: take back the connection in Slot; How says in which state it is.
	OpRelease
	// OpSettle: a write has been answered; call Settled with Mark and the position of
	// a probe that starts from now on.
	OpSettle
	// OpAwaitFence: call FenceReady after the session's fence has been settled, or
	// when it takes too long.
	OpAwaitFence
	// OpAdmit: hold Token against a probe that starts from now on, then call Admitted.
	OpAdmit
	// OpCancel: ask the server to cancel what runs on the connection in Slot.
	OpCancel
	// OpLimitIdle: call IdleTooLong with Steps as it is now after Wait.
	OpLimitIdle
	// OpAnswered: the statement that was granted a connection has been answered.
	OpAnswered
	// OpAltered: a statement has committed that may have changed what a role's or a
	// database's sessions begin with.
	OpAltered
	// OpClose: close the client's connection once everything before is sent.
	OpClose
)

var opNames = [...]string{"to-client", "to-server", "judge", "acquire", "withdraw", "release", "settle", "await-fence", "admit", "cancel", "limit-idle", "answered", "altered", "close"}

// String gives the name used in test scripts.
func (o Op) String() string { return opNames[o] }

// Slot is one of the connections a session may hold at once.
type Slot uint8

const (
	// PrimarySlot holds a connection to the primary.
	PrimarySlot Slot = iota
	// ReplicaSlot holds a connection to a replica.
	ReplicaSlot
	slots
)

// String names the slot.
func (s Slot) String() string { return [...]string{"primary", "replica"}[s] }

// Condition is the state in which a connection comes back.
type Condition uint8

const (
	// Clean: between transactions, nothing outstanding, nothing left behind.
	Clean Condition = iota
	// Stepped: the same, but a sequence may have been moved: lastval and currval of
	// another client must not see that.
	Stepped
	// Used: the same, but what ran may have left something in the server session:
	// it must be reset before another client gets it.
	Used
	// Open: a transaction is open that has only read, or has failed, and is to be ended
	// before another client gets it.
	Open
	// Broken: it cannot be used again.
	Broken
)

// String gives the name used in test scripts.
func (c Condition) String() string {
	return [...]string{"clean", "stepped", "used", "open", "broken"}[c]
}

// Action is one thing to do. Request and Token are the session's, until it is called again.
type Action struct {
	Op      Op
	Slot    Slot
	How     Condition
	Data    []byte
	Request *route.Request
	Mark    uint64
	Wait    time.Duration
	Token   *fence.Token
}

// Grant is a connection lent to the session.
type Grant struct {
	Slot    Slot
	Backend int
	// Server is the run of the backend the connection belongs to.
	Server fence.Server
	Name   string
	Role   route.Role
	Reason route.Reason
	// Replayed is the proven position of the replica at the decision.
	Replayed lsn.Position
	// AsOf is the latest moment, by the machine's clock, of which it is known that the replica
	// shows everything acknowledged before; 0: none is known.
	AsOf time.Duration
	// Waited is the time from the request to the grant.
	Waited time.Duration
	// Statements is the connection's account of prepared statements; the session
	// keeps it while it has the connection.
	Statements *Statements
	// Settings is the connection's account of what has been set on it; the session
	// keeps it while it has the connection.
	Settings *settings.Hash
	// Reported is the connection's account of what its server has reported; the session
	// keeps it while it has the connection.
	Reported *Reported
	// Parameters are what the server reported when the connection was made. They
	// are shared; nobody changes them.
	Parameters []handoff.Parameter
}

// Problem is an error for the client, in PostgreSQL's terms.
type Problem struct {
	// Code is the SQLSTATE (PostgreSQL documentation: "PostgreSQL Error Codes").
	Code    string
	Message string
	Detail  string
	Hint    string
	// File and Routine are where a server reports it, for those errors that drivers know by that.
	File, Routine string
	// Fatal ends the session.
	Fatal bool
	// whole is the server's own message, if it is shown as it came.
	whole []byte
}
