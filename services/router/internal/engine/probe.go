package engine

import (
	"bytes"
	"context"
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

// probeQuery reads the position behind every record inserted so far, a commit
// record of an answered statement included, and the timeline. It must be the
// insert position: the write position may lie before a commit under
// synchronous_commit = off (PostgreSQL documentation, "Backup Control Functions").
// The flushed position says whether replicas are being sent it already.
const probeQuery = "SELECT pg_catalog.pg_current_wal_insert_lsn(), pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8), pg_catalog.pg_current_wal_flush_lsn()"

// probe is the router's one connection for reading the primary's position. All
// sessions that were answered before a probe starts are settled by it.
type probe struct {
	// talk is ready when the statements are prepared.
	talk
	group  fence.Group[settlement]
	server fence.Server
	// toward is where a connection that is being made goes, turnBack gives it up.
	toward   int
	turnBack context.CancelFunc

	// asked is what the connection has still to answer, oldest first.
	asked []question

	// columns is used again for each answer.
	columns  pgproto3.DataRow
	position lsn.Position
	flushed  lsn.LSN
	got      bool
	// started is when the connection was asked last: a probe, or what prepares it.
	started time.Time
	nudge   fence.Nudge
	// looking stands for the sessions that wait to know on which timeline the primary is.
	looking fence.Place
}

// question is one of the things the probe's connection is asked.
type question uint8

const (
	toPrepare question = iota
	toProbe
	toNudge
)

// settlement is a session's writes up to a mark, waiting for a position, or a token, or
// whoever looks for the primary's timeline.
type settlement struct {
	c      *client
	mark   uint64
	admits *admission
	looks  bool
}

var (
	prepareProbe = mustEncode(
		&pgproto3.Parse{Name: "probe", Query: probeQuery},
		&pgproto3.Parse{Name: "nudge", Query: nudgeQuery},
		&pgproto3.Sync{})
	runProbe = mustEncode(
		&pgproto3.Bind{PreparedStatement: "probe"},
		&pgproto3.Execute{},
		&pgproto3.Sync{})
	runNudge = mustEncode(
		&pgproto3.Bind{PreparedStatement: "nudge"},
		&pgproto3.Execute{},
		&pgproto3.Sync{})
)

func mustEncode(ms ...pgproto3.FrontendMessage) []byte {
	var b []byte
	for _, m := range ms {
		var err error
		if b, err = m.Encode(b); err != nil {
			panic(fmt.Sprintf("encode %T: %v", m, err)) // constants of this file
		}
	}
	return b
}

// join settles the session's writes up to mark with the next probe.
func (p *probe) join(c *client, mark uint64) {
	p.group.Join(settlement{c: c, mark: mark}, &c.place)
	p.start()
}

// look has the primary asked, for the stranded sessions that know of a later timeline than this
// router does.
func (p *probe) look() {
	if p.e.tracker.Table().Primary != route.None {
		p.group.Join(settlement{looks: true}, &p.looking)
		p.start()
	}
}

// seen gives the timeline on which the primary was found in its present run, zero if it has
// not been asked.
func (p *probe) seen() lsn.Timeline {
	primary := p.e.tracker.Table().Primary
	if primary == route.None || p.server != (fence.Server{Backend: primary, Run: p.e.tracker.Run(primary)}) {
		return 0
	}
	return p.position.Timeline
}

// start starts a probe if one is wanted and none is under way. It is called at least once a
// second, so that no answer is waited for in vain for long.
func (p *probe) start() {
	primary := p.e.tracker.Table().Primary
	late := p.e.now.Sub(p.started) > probeTimeout
	if p.group.Flying() && (primary != p.server.Backend || late) {
		p.fail(errors.New("no answer in time, or from a server that is not the primary any more"))
		return
	}
	if p.open && !p.ready && late {
		p.fail(errors.New("the probe is not prepared in time"))
		return
	}
	if p.group.Waiting() == 0 || p.group.Flying() {
		return
	}
	if p.open && (p.server.Backend != primary || p.server.Run != p.e.tracker.Run(primary)) {
		p.fail(errors.New("the primary is another one"))
		return
	}
	if !p.open {
		if p.connecting && p.toward != primary {
			p.turnBack() // the wait for a server that is gone must not hold up the next one
		}
		p.connectTo(primary)
		return
	}
	if !p.ready {
		return
	}
	p.group.Start()
	p.started, p.got = time.Now(), false
	p.ask(toProbe, runProbe)
}

func (p *probe) ask(q question, msg []byte) {
	p.asked = append(p.asked, q)
	p.say(msg)
}

func (p *probe) connectTo(primary int) {
	if !p.mayConnect() || primary == route.None {
		return
	}
	to := p.e.servers[primary]
	ctx, stop := context.WithCancel(p.e.workCtx)
	p.toward, p.turnBack = primary, stop
	p.connect(func() (*upstream.Made, error) {
		defer stop()
		return to.connector.ConnectMonitor(ctx, "pgpilot-probe")
	}, func(m *upstream.Made, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.connected(to, primary, m)
	})
}

func (p *probe) connected(to *serverSite, primary int, m *upstream.Made) {
	if to != p.e.servers[primary] { // its run is none of the server that has its place
		poll.Hangup(m.FD)
		p.fail(errors.New("the primary is another one"))
		return
	}
	p.server = fence.Server{Backend: primary, Run: p.e.observe(primary, m)}
	if err := p.adopt(m.FD, p); err != nil {
		p.fail(err)
		return
	}
	p.asked = p.asked[:0]
	p.position, p.flushed = lsn.Position{}, 0
	p.started = time.Now()
	p.ask(toPrepare, prepareProbe)
}

// probeTimeout bounds the wait for a probe's answer: a server that vanishes without
// a word must not hold up every fence.
const probeTimeout = 3 * time.Second

// A probe connection that failed is made again after probeFrom, doubling up to
// probeUpTo, for as long as somebody waits for a position.
const (
	probeFrom = 20 * time.Millisecond
	probeUpTo = time.Second
)

// fail implements talker. Those who wait go on waiting for the next connection. Their
// reads go to the primary meanwhile.
func (p *probe) fail(err error) {
	p.e.log.Warn("cannot read the primary's position", obs.KeyError, err)
	p.e.metrics.ProbeFailures.Inc()
	p.hangup()
	if p.group.Flying() {
		p.group.Fail()
	}
	p.again(probeFrom, probeUpTo, p.start)
}

// told implements talker.
func (p *probe) told(typ byte, body []byte) error {
	switch typ {
	case wire.ErrorResponse:
		if !p.answers(toNudge) {
			return fmt.Errorf("the server refused the probe: %s", refusal(body))
		}
		p.refused(body)
	case wire.DataRow:
		if !p.answers(toNudge) {
			return p.row(body)
		}
	case wire.ReadyForQuery:
		if len(p.asked) == 0 {
			return errUnasked
		}
		q := p.asked[0]
		p.asked = append(p.asked[:0], p.asked[1:]...)
		if q != toNudge {
			return p.answered()
		}
	}
	return nil
}

// answers reports whether what comes now answers q.
func (p *probe) answers(q question) bool { return len(p.asked) > 0 && p.asked[0] == q }

// row reads the one row of a probe.
func (p *probe) row(body []byte) error {
	row := &p.columns
	if err := row.Decode(body); err != nil {
		return err
	}
	if len(row.Values) != 3 {
		return fmt.Errorf("the probe has %d columns", len(row.Values))
	}
	at, err := lsn.Parse(string(row.Values[0]))
	if err != nil {
		return err
	}
	timeline, err := strconv.ParseUint(string(bytes.TrimSpace(row.Values[1])), 16, 32)
	if err != nil {
		return fmt.Errorf("read timeline: %w", err)
	}
	if p.flushed, err = lsn.Parse(string(row.Values[2])); err != nil {
		return err
	}
	p.position = lsn.Position{
		Timeline: lsn.Timeline(timeline),
		LSN:      p.e.tracker.Geometry(p.server.Backend).RoundToPage(at),
	}
	p.got = true
	return nil
}

// answered ends a probe, or the preparation.
func (p *probe) answered() error {
	p.ready = true
	p.backoff = 0
	if p.group.Flying() {
		if !p.got {
			return errors.New("the probe gave no row")
		}
		p.settle()
	}
	p.start()
	return nil
}

// settle gives the position to every session that was answered before the probe
// started.
func (p *probe) settle() {
	served := p.group.Done()
	p.e.metrics.Probes.Inc()
	p.e.metrics.Settled.Add(float64(len(served)))
	p.e.metrics.ProbeSessions.Observe(float64(len(served)))
	p.e.metrics.ProbeTime.Observe(time.Since(p.started).Seconds())
	at := fence.Probe{Position: p.position, Server: p.server}
	wanted := false
	for i, st := range served {
		served[i] = settlement{}
		if st.looks {
			p.e.retryStranded()
			continue
		}
		if st.admits != nil {
			p.e.weigh(st.admits, at.Position)
			continue
		}
		c := st.c
		if c.closed {
			continue
		}
		if !c.s.Settled(st.mark, at) {
			c.maybeLost()
			c.perform()
		}
		wanted = wanted || c.reads && c.s.Fence().Position() == p.position
		c.reads = false
		if c.awaiting && !c.s.Settling() {
			c.fenceReady()
		}
	}
	if wanted {
		// They are likely to read again: by then it is known who has replayed it.
		p.e.want(p.position)
	}
}

// maybeLost tells the client that the primary may lack what it has written or seen.
func (c *client) maybeLost() {
	c.e.metrics.MaybeLost.Inc()
	c.log.Warn("what this session has written or read last was answered by a run of a server that has ended; it may be lost")
	c.s.Warn("01000", "the primary has restarted or changed since this session's last write or read, which may be lost", "Check the data that was written last.")
}
