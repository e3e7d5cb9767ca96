package bus

import (
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
	// Healthy says whether the last poll succeeded. When it did not, Error says why
	// and the positions are the last known ones.
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
	// Incarnation is the run of the server that the positions belong to.
	Incarnation lsn.Incarnation `json:"incarnation"`
	Geometry    lsn.Geometry    `json:"geometry"`
	// ServerVersion is server_version_num, for example 150018.
	ServerVersion int `json:"server_version"`
	// ReplayLSN and ReceiveLSN are of a replica, InsertLSN and FlushLSN of a primary.
	ReplayLSN  lsn.LSN `json:"replay_lsn,omitempty"`
	ReceiveLSN lsn.LSN `json:"receive_lsn,omitempty"`
	InsertLSN  lsn.LSN `json:"insert_lsn,omitempty"`
	FlushLSN   lsn.LSN `json:"flush_lsn,omitempty"`
	// LagBytes is the primary's newest known insert position minus the replay
	// position, in bytes. LagMillis is how long ago the newest sample of the primary
	// that this replica has replayed was asked for, by the lagpoller's clock. Both
	// are -1 when unknown.
	LagBytes  int64   `json:"lag_bytes"`
	LagMillis float64 `json:"lag_ms"`
	// Seq grows with every message about this backend from one publisher.
	Seq uint64 `json:"seq"`
	// Publisher is the instance id of the lagpoller.
	Publisher string `json:"publisher"`
	// At is the wall-clock time at which the observation was asked for.
	At time.Time `json:"at"`
}

// LagSnapshot answers a request on SubjectLagSnapshot.
type LagSnapshot struct {
	V        int   `json:"v"`
	Backends []Lag `json:"backends"`
}

// Topology says which server is what.
type Topology struct {
	V int `json:"v"`
	// Generation grows with every change seen by one publisher.
	Generation uint64 `json:"generation"`
	Publisher  string `json:"publisher"`
	// Primary is the name of the backend that accepts writes, empty when none does
	// or more than one claims to.
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
}

// Flush says that what was known of a database's statements no longer holds.
type Flush struct {
	V        int    `json:"v"`
	Database string `json:"database"`
}
