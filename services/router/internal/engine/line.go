package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

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
	pipe
	b       *barrier
	backend int
	// to is the server that was connected to: its place may be another's by now.
	to     *serverSite
	server fence.Server

	open, connecting, ready bool
	pause                   poll.Timer
	backoff                 time.Duration

	// asking says that an answer is owed to the barrier, and due ends the wait for it;
	// about are the transactions that a replica is asked about, for the uses of.
	asking bool
	due    poll.Timer
	about  []uint64
	of     []use
	row    [][]byte

	// former is what earlier runs of the server may have shown.
	former fence.Former
}

// patience is how long a server may take for an answer, a part of the time for which
// statements wait: there is to be some left for another connection to it.
func (l *line) patience() time.Duration {
	return min(probeTimeout, l.b.e.cfg.Fencing.WaitPrimary.D()/4)
}

// await gives the connection up that owes an answer for too long.
func (l *line) await() {
	l.b.e.timers.Set(&l.due, l.b.e.now.Add(l.patience()), func() { l.fail(errors.New("no answer in time")) })
}

// prepareLine prepares both questions: a server may be asked either of them.
var prepareLine = mustEncode(
	&pgproto3.Parse{Name: "open", Query: openQuery},
	&pgproto3.Parse{Name: "committed", Query: committedQuery},
	&pgproto3.Sync{})

// usable reports whether the line can be asked something now, and otherwise sees to it
// that it can be.
func (l *line) usable() bool {
	e := l.b.e
	if l.open && (l.to != e.servers[l.backend] || l.server.Run != e.tracker.Run(l.backend)) {
		l.fail(errors.New("the server is another one"))
	}
	if !l.open {
		l.connect()
	}
	return l.open && l.ready && !l.asking
}

func (l *line) connect() {
	e := l.b.e
	if l.connecting || l.pause.Active() || e.tracker.Leaving(l.backend) {
		return
	}
	l.connecting = true
	to := e.servers[l.backend]
	e.work.Go(func() {
		m, err := to.connector.ConnectMonitor(e.workCtx, "pgpilot-barrier")
		posted := e.Post(func() {
			l.connecting = false
			if err != nil {
				l.fail(err)
			} else {
				l.connected(to, m)
			}
			e.runReady()
		})
		if !posted && err == nil {
			poll.Hangup(m.FD)
		}
	})
}

func (l *line) connected(to *serverSite, m *upstream.Made) {
	e := l.b.e
	run := e.tracker.Observe(l.backend, m.Run)
	l.pipe = pipe{}
	if l.b.lines[l.backend] != l { // it was given up meanwhile
		poll.Hangup(m.FD)
		return
	}
	if run == 0 || to != e.servers[l.backend] {
		poll.Hangup(m.FD)
		l.fail(errors.New("the server has restarted meanwhile"))
		return
	}
	if err := l.pipe.open(e, m.FD, l, poll.In); err != nil {
		poll.Hangup(m.FD)
		l.fail(err)
		return
	}
	if is := (fence.Server{Backend: l.backend, Run: run}); l.to != to || l.server != is {
		l.to, l.server = to, is
		l.former.Begin()
	}
	l.open, l.ready, l.asking = true, false, false
	l.backoff = 0
	l.await()
	l.say(prepareLine)
}

// ask sends a question, whose answer the barrier gets.
func (l *line) ask(msg []byte) {
	l.asking, l.row = true, nil
	l.await()
	l.say(msg)
}

func (l *line) say(msg []byte) {
	l.send(msg)
	if l.broken {
		l.fail(errors.New("connection closed"))
	}
}

// fail ends the connection. A question that was not answered is the barrier's to ask
// again.
func (l *line) fail(err error) {
	e := l.b.e
	e.log.Warn("cannot ask a server what it shows", obs.KeyBackend, e.nameOf(l.backend), obs.KeyError, err)
	l.hangup()
	asked := l.asking
	l.open, l.ready, l.asking = false, false, false
	e.timers.Stop(&l.due)
	l.backoff = min(max(2*l.backoff, probeFrom), probeUpTo)
	e.timers.Set(&l.pause, e.now.Add(l.backoff), l.b.start)
	if asked {
		l.b.answered(l, nil, err)
	}
}

// hangup closes the connection if there is one.
func (l *line) hangup() {
	if l.open {
		l.pipe.hangup()
	}
}

// event handles readiness of the line's socket.
func (l *line) event(ev poll.Event) {
	if ev.Writable() && len(l.out) > 0 {
		l.flush()
	}
	if !ev.Readable() && !ev.Gone() {
		return
	}
	n, st := l.recv()
	switch st {
	case poll.Again:
		return
	case poll.Closed:
		l.fail(errors.New("connection closed"))
		return
	case poll.OK:
	}
	b := l.received(l.b.e.buf[:n])
	for l.open {
		typ, total, err := wire.Header(b)
		if err != nil {
			l.fail(err)
			return
		}
		if total == 0 || len(b) < total {
			l.leave(b)
			return
		}
		msg := b[:total]
		b = b[total:]
		switch typ {
		case wire.ErrorResponse:
			l.fail(fmt.Errorf("the server refused the question: %s", refusal(msg[wire.HeaderSize:])))
		case wire.DataRow:
			var row pgproto3.DataRow
			if err := row.Decode(msg[wire.HeaderSize:]); err != nil {
				l.fail(err)
				return
			}
			l.row = nil
			for _, v := range row.Values {
				l.row = append(l.row, append([]byte(nil), v...)) // the loop's buffer is used again
			}
		case wire.ReadyForQuery:
			l.said()
		}
	}
}

// said takes the end of an answer, or of the preparation.
func (l *line) said() {
	l.b.e.timers.Stop(&l.due)
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

// refusal writes an ErrorResponse for the log.
func refusal(body []byte) string {
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s: %s", e.SeverityUnlocalized, e.Code, e.Message)
}
