package engine

import (
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
)

// nudgeQuery writes a record that means nothing and does not wait for it: its commit
// makes the server's WAL writer flush everything before it (PostgreSQL documentation,
// "Replication Management Functions": pg_logical_emit_message).
const nudgeQuery = "SELECT pg_catalog.pg_logical_emit_message(false, 'pgpilot', '')"

// want asks for news of replicas that reach the position, for which a read waits or
// has gone to the primary, and makes the primary flush it if it has not.
func (e *Engine) want(at lsn.Position) {
	e.expect(at)
	if !e.askReplicas(at) {
		e.opts.Want(at)
	}
	p := &e.probe
	if !p.ready || at.Timeline != p.position.Timeline {
		return
	}
	if p.nudge.Due(at.LSN, p.flushed, e.now) {
		e.metrics.Nudges.Inc()
		p.ask(toNudge, runNudge)
	}
}

// refused notes that the server does not let itself be nudged: replicas reach what
// is not flushed later then, and reads go to the primary.
func (p *probe) refused(why []byte) {
	p.e.metrics.NudgeFailures.Inc()
	p.e.log.Debug("the server refused to write a record", obs.KeyError, refusal(why))
}
