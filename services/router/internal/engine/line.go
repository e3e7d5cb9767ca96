package engine

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// line is a connection of the router's own to one server, with pgpilot's login, on
// which the barrier asks one thing at a time. It is made when it is wanted and then
// kept.
type line struct {
	// talk is ready when both questions are prepared.
	talk
	b       *barrier
	backend int
	// to is the server that was connected to: its place may be another's by now.
	to     *serverSite
	server fence.Server

	// asking says that an answer is owed to the barrier, and due ends the wait for it;
	// about are the transactions that a replica is asked about, for the uses of.
	asking bool
	due    poll.Timer
	about  []uint64
	of     []use
	// replayed is how far the replica was before it was asked.
	replayed lsn.Position
	row      [][]byte

	// former is what earlier runs of the server may have shown.
	former fence.Former
}

// patience is how long a server may take for an answer, a part of the time for which
// statements wait: there is to be some left for another connection to it.
func (l *line) patience() time.Duration {
	return min(probeTimeout, l.e.cfg.Fencing.WaitPrimary.D()/4)
}

// await gives the connection up that owes an answer for too long.
func (l *line) await() {
	l.e.timers.Set(&l.due, l.e.now.Add(l.patience()), func() { l.fail(errors.New("no answer in time")) })
}

// prepareLine prepares both questions: a server may be asked either of them.
var prepareLine = mustEncode(
	&pgproto3.Parse{Name: "open", Query: openQuery},
	&pgproto3.Parse{Name: "committed", Query: committedQuery},
	&pgproto3.Sync{})

// usable reports whether the line can be asked something now, and otherwise sees to it
// that it can be.
func (l *line) usable() bool {
	e := l.e
	if l.open && (l.to != e.servers[l.backend] || l.server.Run != e.tracker.Run(l.backend)) {
		l.fail(errors.New("the server is another one"))
	}
	if !l.open {
		l.connectTo()
	}
	return l.open && l.ready && !l.asking
}

func (l *line) connectTo() {
	e := l.e
	if !l.mayConnect() || e.tracker.Leaving(l.backend) {
		return
	}
	to := e.servers[l.backend]
	l.connect(func() (*upstream.Made, error) {
		return to.connector.ConnectMonitor(e.workCtx, "pgpilot-barrier")
	}, func(m *upstream.Made, err error) {
		if err != nil {
			l.fail(err)
		} else {
			l.connected(to, m)
		}
		e.runReady()
	})
}

func (l *line) connected(to *serverSite, m *upstream.Made) {
	e := l.e
	if l.b.lines[l.backend] != l { // it was given up meanwhile
		poll.Hangup(m.FD)
		return
	}
	run := uint32(0)
	if to == e.servers[l.backend] { // otherwise the run is none of the server that has its place
		run = e.observe(l.backend, m)
	}
	if run == 0 {
		poll.Hangup(m.FD)
		l.fail(errRestarted)
		return
	}
	if err := l.adopt(m.FD, l); err != nil {
		l.fail(err)
		return
	}
	if is := (fence.Server{Backend: l.backend, Run: run}); l.to != to || l.server != is {
		l.to, l.server = to, is
		l.former.Begin()
	}
	l.asking, l.backoff = false, 0
	l.await()
	l.say(prepareLine)
}

// ask sends a question, whose answer the barrier gets.
func (l *line) ask(msg []byte) {
	l.asking, l.row = true, nil
	l.await()
	l.say(msg)
}

// fail implements talker. A question that was not answered is the barrier's to ask
// again.
func (l *line) fail(err error) {
	e := l.e
	e.log.Warn("cannot ask a server what it shows", obs.KeyBackend, e.nameOf(l.backend), obs.KeyError, err)
	l.hangup()
	asked := l.asking
	l.asking = false
	e.timers.Stop(&l.due)
	l.again(probeFrom, probeUpTo, l.b.start)
	if asked {
		l.b.answered(l, nil, err)
	}
}

// told implements talker.
func (l *line) told(typ byte, body []byte) error {
	switch typ {
	case wire.ErrorResponse:
		return refusing(body)
	case wire.DataRow:
		var row pgproto3.DataRow
		if err := row.Decode(body); err != nil {
			return err
		}
		l.row = nil
		for _, v := range row.Values {
			l.row = append(l.row, append([]byte(nil), v...)) // the loop's buffer is used again
		}
	case wire.ReadyForQuery:
		l.said()
	}
	return nil
}

// said takes the end of an answer, or of the preparation.
func (l *line) said() {
	l.e.timers.Stop(&l.due)
	if !l.ready {
		l.ready = true
		l.b.start()
		return
	}
	if l.asking {
		l.asking = false
		l.b.answered(l, l.row, nil)
	}
}
