package sim

import (
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
)

// asker is the router's own connection to a replica for asking how far it has replayed,
// with the rules of engine/replay.go.
type asker struct {
	r    *router
	id   int
	open *conn
	run  uint32
	// before is the timeline that the server said last.
	before lsn.Timeline
	// looked says that the position has been read, answered, that the timeline has been
	// as well, and both are on their way.
	looked, answered bool
	replayed         lsn.LSN
	timeline         lsn.Timeline
}

func (r *router) ofReplays(add func(int, string, func())) {
	for i := range r.askers {
		a := &r.askers[i]
		srv := r.w.servers[a.id]
		if a.open == nil {
			if srv.up && !srv.primary && r.tracker.Table().Backends[a.id].Role == route.RoleReplica {
				add(6, "replay connection", a.connect)
			}
			continue
		}
		switch {
		case a.answered && a.open.dead:
			add(1, "replay position arrives late", a.arrives)
		case a.answered:
			add(6, "replay position arrives", a.arrives)
			if r.w.rough && srv.up && !srv.primary { // then it is of a run that has ended
				add(2, "replica crashes behind its answer and stands still", func() {
					srv.stop()
					srv.start(true)
					srv.paused = true
					r.w.counts.restarts++
				})
			}
		case a.open.dead:
		case a.looked:
			add(8, "replica says its timeline", func() { a.timeline, a.answered = srv.position().Timeline, true })
		default:
			// A replica that has become the primary says where it has replayed to then.
			add(8, "replica says its position", func() { a.replayed, a.looked = end(srv.log[:srv.replayed]), true })
		}
		if a.open.dead {
			add(1, "replay connection is lost", a.close)
		}
	}
}

func (a *asker) connect() {
	srv := a.r.w.servers[a.id]
	made := srv.connect()
	if made.run = a.r.tracker.Observe(a.id, srv.incarnation(), topology.Sight{At: a.r.w.time()}); made.run == 0 {
		made.close()
		return
	}
	a.open, a.run, a.before = made, made.run, srv.position().Timeline
}

func (a *asker) close() {
	if a.open != nil {
		a.open.close()
	}
	*a = asker{r: a.r, id: a.id}
}

// arrives takes an answer whose timeline is that of the position.
func (a *asker) arrives() {
	if a.before == a.timeline {
		a.r.tracker.Replayed(a.id, a.run, lsn.Position{Timeline: a.timeline, LSN: a.replayed})
	}
	a.before, a.looked, a.answered = a.timeline, false, false
	a.r.heard()
}
