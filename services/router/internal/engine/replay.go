package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// replay is the router's own connection to one server for asking how far it has
// replayed, while reads want that: the answer is there before news of the bus would be,
// and costs a fraction of it. The connection is one for replication, since only there
// can a standby be asked for the timeline that it replays (PostgreSQL documentation,
// "Streaming Replication Protocol", IDENTIFY_SYSTEM). It is made when it is wanted;
// until it is there, and where it cannot be made, the lagpollers are asked over the bus.
type replay struct {
	// talk is ready when the server has said on which timeline it is.
	talk
	backend int
	to      *serverSite
	server  fence.Server

	pace fence.Pace
	next poll.Timer
	// used is when something was last wanted of it.
	used time.Time

	// owed is how many answers are still to come since asked, due ends the wait for them.
	owed  int
	asked time.Time
	due   poll.Timer
	// begin is start, and expire fail for the lack of an answer, for timers that are set
	// with every question.
	begin, expire func()
	// timeline is what the last answer said, replayed the position that was asked for
	// before it.
	timeline, before lsn.Timeline
	replayed         lsn.LSN
	row              pgproto3.DataRow
}

func (r *replay) init(e *Engine, backend int, to *serverSite) {
	r.e, r.backend, r.to = e, backend, to
	r.begin = r.start
	r.expire = func() { r.fail(errors.New("no answer in time")) }
}

// What the server is asked: its timeline, and its position with the timeline behind it. A
// timeline only grows, so that one which is the same before and behind the position is
// the position's. Connections for replication take the simple protocol alone.
var (
	askTimeline = mustEncode(&pgproto3.Query{String: "IDENTIFY_SYSTEM"})
	askReplayed = mustEncode(
		&pgproto3.Query{String: "SELECT pg_catalog.pg_last_wal_replay_lsn()"},
		&pgproto3.Query{String: "IDENTIFY_SYSTEM"})
)

// A connection that could not be made, or has failed, is made again after replayFrom,
// doubling up to replayUpTo: there may be no room for one (max_wal_senders).
const (
	replayFrom = 100 * time.Millisecond
	replayUpTo = 30 * time.Second
)

// overdue is how long an answer may take before lagpollers are asked as well: the
// connection may have died without a word.
const overdue = 50 * time.Millisecond

// askReplicas asks the replicas that have not reached the position how far they are. It
// reports whether it could ask all of them.
func (e *Engine) askReplicas(at lsn.Position) bool {
	all := true
	for i, s := range e.servers {
		b := &e.tracker.Table().Backends[i]
		if !follows(b) || b.Replayed.Covers(at) || b.Replayed.Timeline > at.Timeline {
			continue
		}
		all = s.replay.want(at) && all
	}
	return all
}

// follows reports whether the server is a replica that is used, and that will replay more
// of what the primary writes: one that has left the primary's history does not, before it
// is made anew and starts again.
func follows(b *route.Backend) bool {
	return b.Role == route.RoleReplica && b.Healthy && !b.Diverged
}

// want asks for news of the position, and reports whether it can.
func (r *replay) want(at lsn.Position) bool {
	e := r.e
	r.used = e.now
	r.pace.Want(at, e.now, e.cfg.Fencing.Wait.D())
	r.start()
	return r.ready && (r.owed == 0 || e.now.Sub(r.asked) < overdue)
}

// start asks if it is time to, or sees to it that it is done in time.
func (r *replay) start() {
	e := r.e
	if r.open && r.server.Run != e.tracker.Run(r.backend) {
		r.fail(errRestarted)
	}
	if r.owed > 0 {
		return
	}
	b := &e.tracker.Table().Backends[r.backend]
	due, wanted := r.pace.Next(b.Replayed, r.leastPause(), e.now)
	switch {
	case !wanted || b.Diverged:
		e.timers.Stop(&r.next)
	case !r.open:
		r.connectTo()
	case due.After(e.now):
		if !r.next.Active() { // it is never set for too late: what is wanted only hastens it
			e.timers.Set(&r.next, due, r.begin)
		}
	default:
		e.timers.Stop(&r.next)
		r.pace.Asked(e.now)
		r.ask(askReplayed, 2)
	}
}

// leastPause is the least time between two questions. The routers of a host share what a
// lagpoller may ask, as far as a read that waits still gets two answers. A replica that
// takes long to catch up needs no more than a few questions on the way.
func (r *replay) leastPause() time.Duration {
	e := r.e
	one := e.cfg.Fencing.BurstInterval.D()
	shared := min(one*time.Duration(max(1, e.routers.count)), max(one, e.cfg.Fencing.Wait.D()/2))
	return max(shared, min(r.to.catchup.Typical()/questions, slowly))
}

// questions is how many are asked in a catch-up of the usual length, slowly the longest
// pause that follows from this.
const (
	questions = 4
	slowly    = 5 * time.Millisecond
)

// ask asks what has so many answers.
func (r *replay) ask(msg []byte, answers int) {
	r.owed, r.asked = answers, r.e.now
	r.before, r.timeline, r.replayed = r.timeline, 0, 0
	r.e.timers.Set(&r.due, r.asked.Add(probeTimeout), r.expire)
	r.say(msg)
}

func (r *replay) connectTo() {
	e := r.e
	if !r.mayConnect() || e.tracker.Leaving(r.backend) {
		return
	}
	r.connect(func() (*upstream.Made, error) {
		return r.to.connector.ConnectReplication(e.workCtx, "pgpilot-replay")
	}, func(m *upstream.Made, err error) {
		switch {
		case e.servers[r.backend] != r.to || e.tracker.Leaving(r.backend): // it was given up meanwhile
			if err == nil {
				poll.Hangup(m.FD)
			}
		case err != nil:
			r.fail(err)
		default:
			r.connected(m)
		}
	})
}

func (r *replay) connected(m *upstream.Made) {
	e := r.e
	run := e.observe(r.backend, m)
	if run == 0 {
		poll.Hangup(m.FD)
		r.fail(errRestarted)
		return
	}
	if err := r.adopt(m.FD, r); err != nil {
		r.fail(err)
		return
	}
	r.server, r.timeline = fence.Server{Backend: r.backend, Run: run}, 0
	r.ask(askTimeline, 1)
}

// fail implements talker. Who waits for news gets those of the bus.
func (r *replay) fail(err error) {
	e := r.e
	e.log.Info("cannot ask a replica how far it has replayed, lagpollers are asked instead", obs.KeyBackend, r.to.name, obs.KeyError, err)
	e.metrics.ReplayFailures.Inc()
	r.hangup()
	r.again(replayFrom, replayUpTo, r.begin)
}

// hangup closes the connection if there is one, with what is asked on it.
func (r *replay) hangup() {
	r.talk.hangup()
	r.owed = 0
	r.e.timers.Stop(&r.due)
	r.e.timers.Stop(&r.next)
}

// giveUp ends it for a server that is given up.
func (r *replay) giveUp() {
	r.hangup()
	r.e.timers.Stop(&r.pause)
}

// rest closes a connection that nobody has wanted anything of for so long, or whose
// server is no replica that is used: a server has room for few of its kind, and the
// lagpoller must get in before it is used again.
func (r *replay) rest(after time.Duration) {
	used := follows(&r.e.tracker.Table().Backends[r.backend]) && r.e.now.Sub(r.used) < after
	if r.open && !used {
		r.hangup()
	}
}

// told implements talker.
func (r *replay) told(typ byte, body []byte) error {
	switch typ {
	case wire.ErrorResponse:
		return refusing(body)
	case wire.DataRow:
		return r.take(body)
	case wire.ReadyForQuery:
		return r.answered()
	}
	return nil
}

// take reads the one row of an answer: the position, of which the timeline is owed as
// well, or what IDENTIFY_SYSTEM says (systemid, timeline, xlogpos, dbname).
func (r *replay) take(body []byte) (err error) {
	if err = r.row.Decode(body); err != nil {
		return err
	}
	switch v := r.row.Values; {
	case r.owed == 2 && len(v) == 1 && v[0] == nil: // a primary that was never a standby
		return nil
	case r.owed == 2 && len(v) == 1:
		r.replayed, err = lsn.Parse(string(v[0]))
		return err
	case r.owed == 1 && len(v) == 4:
		system, err := strconv.ParseUint(string(v[0]), 10, 64)
		if err != nil {
			return fmt.Errorf("read the system identifier: %w", err)
		}
		r.e.tracker.Belongs(r.backend, r.server.Run, system)
		if r.e.warnOfForeign(r.backend); r.e.tracker.Foreign(r.backend) {
			return fmt.Errorf("it is of another cluster, %d", system)
		}
		timeline, err := strconv.ParseUint(string(bytes.TrimSpace(v[1])), 10, 32)
		if err != nil {
			return fmt.Errorf("read the timeline: %w", err)
		}
		r.timeline = lsn.Timeline(timeline)
		return nil
	}
	return fmt.Errorf("an answer of %d columns is not one to this question", len(r.row.Values))
}

// answered ends an answer.
func (r *replay) answered() error {
	e := r.e
	if r.owed == 0 {
		return errUnasked
	}
	if r.owed--; r.owed > 0 {
		return nil
	}
	e.timers.Stop(&r.due)
	if r.timeline == 0 {
		return errors.New("the server does not say on which timeline it is")
	}
	if r.ready && r.replayed != 0 && r.before == r.timeline {
		r.backoff = 0
		e.metrics.ReplayProbes.Inc()
		at := lsn.Position{Timeline: r.timeline, LSN: r.replayed}
		if e.tracker.Replayed(r.server.Backend, r.server.Run, at) {
			e.arrivedAt(r.backend)
		}
	}
	r.ready = true
	r.start()
	return nil
}
