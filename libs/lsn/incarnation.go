package lsn

// Incarnation identifies one uninterrupted run of one server: within it the
// server's positions only grow, and its data never goes back. A restart starts
// a new one, and so does a crash restart, which keeps the postmaster and changes
// only the start of the processes below it.
type Incarnation struct {
	// SystemID is the cluster's system identifier (pg_control_system).
	SystemID uint64 `json:"system_id,string"`
	// Timeline is the timeline being replayed, or written to on a primary.
	Timeline Timeline `json:"timeline"`
	// Postmaster is pg_postmaster_start_time() in microseconds since the Unix epoch.
	Postmaster int64 `json:"postmaster_start_us"`
	// Children is the last start of the processes below the postmaster, in
	// microseconds since the Unix epoch: backend_start of the checkpointer in
	// pg_stat_activity (visible to members of pg_read_all_stats). The checkpointer
	// runs on primaries and standbys alike, and a crash restart replaces it
	// together with the startup process.
	Children int64 `json:"children_start_us"`
}

// IsZero reports whether the incarnation is unknown.
func (i Incarnation) IsZero() bool { return i == Incarnation{} }

// RunColumns are the SQL expressions of Postmaster and Children, for the list of
// a SELECT. The second is NULL for a user who is not a member of
// pg_read_all_stats, and while the server has no checkpointer yet.
const RunColumns = `(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
 (SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_catalog.pg_stat_activity WHERE backend_type = 'checkpointer')`

// SameRun reports whether both are one run of one server, whatever timeline it
// was on: a standby that follows a promotion without a restart only goes forward.
func (i Incarnation) SameRun(o Incarnation) bool {
	return i.Postmaster == o.Postmaster && i.Children == o.Children && i.Postmaster != 0
}
