package sim

import (
	"github.com/pgpilot/pgpilot/libs/lsn"
)

const (
	servers = 3
	keys    = 2
)

// record is one record of the write-ahead log.
type record struct {
	id       int
	timeline lsn.Timeline
	end      lsn.LSN
	// commit sets a key.
	commit         bool
	key            int32
	value, version int64
}

// cell is what a key holds.
type cell struct{ value, version int64 }

// server is one PostgreSQL server.
type server struct {
	w       *world
	id      int
	name    string
	up      bool
	primary bool
	inc     lsn.Incarnation // without the timeline
	// run numbers the incarnations of all servers.
	run int32
	log []record
	// ended lists where the timelines before its own ended.
	ended []lsn.Position
	// restart is how many records of the log it has at least after a restart.
	restart int

	// Of a primary: how many records are on disk; commits that wait for that; whose
	// transactions hold which key.
	flushed int
	pending []*commit
	locks   [keys]*conn

	// Of a replica: how many records are replayed, and how many are visible: one that
	// is being replayed may be visible before the position has passed it.
	replayed, visible int
	// paused says that it does not replay.
	paused bool

	state [keys]cell
	conns []*conn
}

// commit is one that its client has not been told of. The primary does not show it
// yet.
type commit struct {
	at   int // place in the log
	from *conn
	rec  record
	tell func()
	// slow says that it waits for a synchronous standby.
	slow bool
}

// firstLSN is where the log begins.
const firstLSN = lsn.LSN(0x1000000)

func end(log []record) lsn.LSN {
	if len(log) == 0 {
		return firstLSN
	}
	return log[len(log)-1].end
}

// timelineOf gives the timeline of the last of the records.
func timelineOf(log []record) lsn.Timeline {
	if len(log) == 0 {
		return 1
	}
	return log[len(log)-1].timeline
}

// position is what the server says of itself: the insert position of a primary, the
// replayed one of a replica.
func (s *server) position() lsn.Position {
	log := s.log
	if !s.primary {
		log = s.log[:s.replayed]
	}
	return lsn.Position{Timeline: timelineOf(log), LSN: end(log)}
}

// insertPosition and flushPosition are a primary's.
func (s *server) insertPosition() lsn.LSN { return end(s.log) }
func (s *server) flushPosition() lsn.LSN  { return end(s.log[:s.flushed]) } //nolint:unused // by a mutant

// incarnation is what a connection is told.
func (s *server) incarnation() lsn.Incarnation {
	i := s.inc
	i.Timeline = s.position().Timeline
	return i
}

// write adds a record to a primary's log.
func (s *server) write(r record) record {
	r.id = s.w.number()
	if r.timeline == 0 {
		r.timeline = timelineOf(s.log)
	}
	r.end = end(s.log) + lsn.LSN(24+s.w.r.IntN(40))
	s.log = append(s.log, r)
	return r
}

// flush puts the log on disk up to n records. Commits that waited for it can be told.
func (s *server) flush(n int) { s.flushed = max(s.flushed, n) }

// acknowledge shows and tells the first commit that waits and may be told.
func (s *server) acknowledge() {
	c := s.pending[0]
	s.pending = s.pending[1:]
	s.show(c.rec)
	c.from.unlock()
	c.tell()
}

// acknowledges reports whether a commit can be told.
func (s *server) acknowledges() bool {
	return s.up && len(s.pending) > 0 && s.pending[0].at < s.flushed
}

func (s *server) show(r record) {
	if r.commit {
		s.state[r.key] = cell{r.value, r.version}
	}
}

// rebuildState makes what n records of the log show.
func (s *server) rebuildState(n int) {
	s.state = [keys]cell{}
	for _, r := range s.log[:n] {
		s.show(r)
	}
}

// receives reports whether the primary has sent something that the replica can
// append.
func (s *server) receives(p *server) bool {
	n := len(s.log)
	return s.up && p != nil && p.up && s != p && n < p.flushed && (n == 0 || p.log[n-1].id == s.log[n-1].id)
}

func (s *server) receive(p *server) {
	n := len(s.log)
	s.log = append(s.log, p.log[n:n+1+s.w.r.IntN(p.flushed-n)]...)
}

// replay makes one step: a record becomes visible, then the position passes it.
func (s *server) replay() {
	if s.visible == s.replayed {
		s.show(s.log[s.visible])
		s.visible++
		if s.w.r.IntN(2) == 0 {
			return
		}
	}
	s.replayed = s.visible
}

// hangUp ends every connection.
func (s *server) hangUp() {
	for _, c := range s.conns {
		c.dead = true
	}
	s.conns = nil
	s.locks = [keys]*conn{}
}

// newRun begins another incarnation. Clocks may be set back: start times do not grow.
func (s *server) newRun(crash bool) {
	if !crash {
		s.inc.Postmaster = s.w.startTime()
	}
	s.inc.Children = s.w.startTime()
	s.run = int32(s.w.number())
}

// stop ends the server at once. A primary loses what is not on disk.
func (s *server) stop() {
	s.up = false
	s.hangUp()
	if s.primary {
		s.w.lose(s.log[s.flushed:])
		s.log = s.log[:s.flushed]
		s.pending = nil
	}
}

// start starts it again. A replica begins where its last restartpoint lets it.
func (s *server) start(crash bool) {
	s.up = true
	s.newRun(crash)
	if s.primary {
		s.flushed = len(s.log)
		s.rebuildState(len(s.log))
		return
	}
	s.replayed = s.restart
	s.visible = s.replayed
	s.rebuildState(s.replayed)
}

// rebuild makes the server a replica with an older backup of the primary.
func (s *server) rebuild(p *server) {
	s.hangUp()
	n := s.w.r.IntN(p.flushed + 1)
	s.primary, s.pending = false, nil
	s.log = append([]record(nil), p.log[:n]...)
	s.ended = nil
	s.restart = n
	s.start(false)
}

// promote makes a replica the primary: it replays what it has, and goes on on a new
// timeline without a restart.
func (s *server) promote(former *server) {
	for s.replayed < len(s.log) {
		s.replay()
	}
	s.visible = s.replayed
	s.ended = append(append([]lsn.Position(nil), former.ended...), lsn.Position{Timeline: timelineOf(s.log), LSN: end(s.log)})
	common := 0
	for common < len(s.log) && common < len(former.log) && s.log[common].id == former.log[common].id {
		common++
	}
	// A replica that an earlier failover has left behind brings back what that one lost.
	s.w.lose(append(append([]record(nil), former.log[common:]...), s.log[common:]...))
	s.primary = true
	s.write(record{timeline: s.w.nextTimeline()})
	s.flushed = len(s.log)
}
