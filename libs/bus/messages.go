package bus

import (
	"encoding/json"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// Role is what a server is, not what the configuration hoped.
type Role string

// Roles of a server.
const (
	Primary Role = "primary"
	Replica Role = "replica"
	Unknown Role = "unknown"
)

// Lag is one observation of one backend.
type Lag struct {
	V int `json:"v"`
	// Backend is the configured name, Address the host:port it stands for.
	Backend string `json:"backend"`
	Address string `json:"address"`
	Role    Role   `json:"role"`
	// Healthy is false once health.failure_threshold polls in a row have failed, and
	// as long as none has succeeded, and of a replica that has left the primary's
	// history, being on an earlier timeline and past its end, or is of another cluster. Error says why
	// the last poll failed, if it did; role, incarnation, positions and At are then those
	// of the last that succeeded. Of a replica that has left, it says so.
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
	// Diverged says of a replica that it has left the primary's history, or is of another
	// cluster, in this run of it.
	Diverged bool `json:"diverged,omitempty"`
	// Incarnation is the run of the server that the positions belong to.
	Incarnation lsn.Incarnation `json:"incarnation"`
	Geometry    lsn.Geometry    `json:"geometry"`
	// ServerVersion is server_version_num, for example 150018.
	ServerVersion int `json:"server_version"`
	// ReplayLSN and ReceiveLSN are of a replica, InsertLSN and FlushLSN of a primary;
	// the others are absent. InsertLSN does not count a page header that no record
	// follows yet (lsn.Geometry.RoundToPage). Between two full polls ReceiveLSN may be
	// older than ReplayLSN.
	ReplayLSN  lsn.LSN `json:"replay_lsn,omitempty"`
	ReceiveLSN lsn.LSN `json:"receive_lsn,omitempty"`
	InsertLSN  lsn.LSN `json:"insert_lsn,omitempty"`
	FlushLSN   lsn.LSN `json:"flush_lsn,omitempty"`
	// Receiving says of a replica that it was being streamed to at the last full poll.
	// One that is not shows older and older data, and lags as soon as something is
	// written.
	Receiving bool `json:"receiving,omitempty"`
	// Settings identifies what a primary has stored for roles and databases (ALTER ROLE …
	// SET, ALTER DATABASE … SET): it is another one when that has changed. Empty where it
	// could not be read.
	Settings string `json:"settings,omitempty"`
	// LagBytes is the primary's newest known insert position minus the replay
	// position, in bytes. LagMillis is how long ago the newest sample of the primary
	// that this replica has replayed was asked for, by the lagpoller's clock. Both
	// are -1 when unknown.
	LagBytes  int64   `json:"lag_bytes"`
	LagMillis float64 `json:"lag_ms"`
	// Seq grows with every message about this backend from one publisher, over its
	// restarts too.
	Seq uint64 `json:"seq"`
	// Publisher is the instance id of the lagpoller.
	Publisher string `json:"publisher"`
	// At is the wall-clock time at which the observation was asked for.
	At time.Time `json:"at"`
	// AskedBoot is the same moment in microseconds since the machine was started
	// (CLOCK_BOOTTIME), and Clock says which machine's and which start's: only readings
	// of one Clock compare (package staleness).
	AskedBoot int64  `json:"asked_boot_us,omitempty"`
	Clock     string `json:"clock,omitempty"`
}

// LagSnapshot answers a request on SubjectLagSnapshot.
type LagSnapshot struct {
	V        int   `json:"v"`
	Backends []Lag `json:"backends"`
}

// Topology says which server is what. There is none before all have been asked once.
type Topology struct {
	V int `json:"v"`
	// Generation grows with every change seen by one publisher, over its restarts too.
	Generation uint64 `json:"generation"`
	Publisher  string `json:"publisher"`
	// Primary is the name of the backend that accepts writes, empty when none is
	// known, more than one claims to and none was promoted from the others, or the one
	// that does is on an older timeline than another member. It keeps its place while it is ill, until another one turns up.
	Primary string   `json:"primary"`
	Members []Member `json:"members"`
	// SwitchPoints lists, for the primary's timeline, where each earlier timeline
	// ended (PostgreSQL's TIMELINE_HISTORY).
	SwitchPoints []lsn.Position `json:"switch_points"`
	At           time.Time      `json:"at"`
}

// Member is one backend of a Topology.
type Member struct {
	Backend     string          `json:"backend"`
	Address     string          `json:"address"`
	Role        Role            `json:"role"`
	Healthy     bool            `json:"healthy"`
	Incarnation lsn.Incarnation `json:"incarnation"`
}

// Want is the highest position a router's sessions wait for. The lagpoller polls
// in bursts while replicas are behind it.
type Want struct {
	V        int          `json:"v"`
	Router   string       `json:"router"`
	Position lsn.Position `json:"position"`
	At       time.Time    `json:"at"`
}

// Verdict is a fresh judgement of a classifier.
type Verdict struct {
	V        int    `json:"v"`
	Database string `json:"database"`
	// Key is the template key in hexadecimal (package sqltoken).
	Key         string   `json:"key"`
	Fingerprint string   `json:"fingerprint"`
	Kind        string   `json:"kind"`
	Effects     []string `json:"effects,omitempty"`
	// Generation of the database's verdicts that this one belongs to: that of the
	// newest Flush its classifier knew of when it began to judge.
	Generation uint64 `json:"generation,omitempty"`
	// Detail is what more there is to know for who routes it (verdict.Detail).
	Detail json.RawMessage `json:"detail,omitempty"`
	// Statement is the text with $1 for its constants, of SELECT, INSERT, UPDATE, DELETE
	// and MERGE up to a few kilobytes; Reads, Writes, Calls and Locks are the names in it
	// of relations that it reads and writes, of functions that it calls, and of
	// relations that it locks or whose rows it locks. They are for people, and missing
	// in a VerdictSnapshot.
	Statement string   `json:"statement,omitempty"`
	Reads     []string `json:"reads,omitempty"`
	Writes    []string `json:"writes,omitempty"`
	Calls     []string `json:"calls,omitempty"`
	Locks     []string `json:"locks,omitempty"`
}

// Flush says that what was known of a database's statements no longer holds.
type Flush struct {
	V        int    `json:"v"`
	Database string `json:"database"`
	// Generation grows with every flush of the database, whoever publishes it: it is
	// the publisher's clock in microseconds, or one more than the last if that is
	// later. Verdicts of earlier generations no longer hold.
	Generation uint64 `json:"generation"`
}

// VerdictSnapshot is a part of what one classifier knows. A request on
// SubjectVerdictSnapshot is answered with several: first one with every flush,
// then the most recently used verdicts, the latest of them last.
type VerdictSnapshot struct {
	V int `json:"v"`
	// Publisher is the instance id of the classifier, Build its version: another build
	// may judge differently.
	Publisher string `json:"publisher"`
	Build     string `json:"build"`
	// Parts is how many parts this classifier's snapshot has; zero from a build that does
	// not tell.
	Parts int `json:"parts,omitempty"`
	// Flushes has the last flush of every database that had one. Only the first part
	// has any.
	Flushes  []Flush   `json:"flushes,omitempty"`
	Verdicts []Verdict `json:"verdicts"`
}
