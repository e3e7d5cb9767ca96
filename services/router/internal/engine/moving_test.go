package engine

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/intake"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// Sessions on their way, with a real cluster.
func TestMoving(t *testing.T) {
	cluster := labtest.Start(t, 1)
	for name, test := range map[string]func(*testing.T, *lab.Cluster){
		"sessions end on their way":            sessionsEndOnTheirWay,
		"sessions that cannot be acknowledged": sessionsThatCannotBeAcknowledged,
		"few are on their way":                 fewAreOnTheirWay,
		"arriving together":                    arrivingTogether,
		"at work at once":                      atWorkAtOnce,
		"taken by another":                     takenByAnother,
		"some are offered at a time":           someAreOfferedAtATime,
		"sessions that are refused":            sessionsThatAreRefused,
		"bound to a server that is gone":       boundToAServerThatIsGone,
		"spare connections that arrive":        spareConnectionsThatArrive,
		"what the primary reports":             whatThePrimaryReports,
		"what has been judged before":          whatHasBeenJudgedBefore,
		"what a connection to a replica is":    whatAConnectionToAReplicaIs,
		"what is held of a standby":            whatIsHeldOfAStandby,
		"what a connection has reported":       whatAConnectionHasReported,
		"spare connections without room":       spareConnectionsWithoutRoom,
		"who takes spare connections along":    whoTakesSpareConnectionsAlong,
		"slow readers do not keep it":          slowReadersDoNotKeepIt,
	} {
		t.Run(name, func(t *testing.T) { test(t, cluster) })
	}
}

// The client, or the server of an open transaction, may end while a session is on its way out
// or in, where nobody's loop watches it: whoever has it in the end finds out, ends it, and has
// nothing left of it.
func sessionsEndOnTheirWay(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	su := st.super()
	for _, who := range []string{"client", "server"} {
		for way, ends := range map[string]func(m *handoff.Message, happens func()){
			"leaving, and it stays": func(m *handoff.Message, happens func()) {
				happens()
				st.answer(m, handoff.TypeRefuse)
				handoff.CloseFDs(m.FDs)
			},
			"leaving, and it comes back": func(m *handoff.Message, happens func()) {
				happens()
				st.answer(m, handoff.TypeAck)
				st.returns(m)
			},
			"arriving": func(m *handoff.Message, happens func()) {
				st.answer(m, handoff.TypeAck)
				happens()
				st.returns(m)
			},
		} {
			t.Run("the "+who+", "+way, func(t *testing.T) {
				p := joinSession(t, st.Engine, t.Name())
				p.exchange(wire.AppendQuery(nil, "BEGIN"))
				p.exchange(wire.AppendQuery(nil, "UPDATE nothing SET a = 1"))
				m := st.leaves(t.Name())
				leases := st.record(m).Live.Leases
				if len(leases) != 1 || leases[0].Idle {
					t.Fatalf("it brings %+v along", leases)
				}
				pid := leases[0].PID
				ends(m, func() {
					if who == "client" {
						_ = unix.Shutdown(p.fd, unix.SHUT_RDWR)
						return
					}
					st.terminate(su, pid)
				})
				if who == "server" {
					if said := p.end(); len(said) == 0 || said[0] != wire.ErrorResponse {
						t.Errorf("its client is told %q", said)
					}
				}
				st.hasEnded(t.Name())
				st.gone(su, pid) // with its transaction
			})
		}
	}
}

// A session that cannot be acknowledged stays its listener's: nothing that it has is shut
// down, and nothing of it is left here.
func sessionsThatCannotBeAcknowledged(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	p := joinSession(t, st.Engine, "x")
	p.exchange(wire.AppendQuery(nil, "BEGIN"))
	p.exchange(wire.AppendQuery(nil, "UPDATE nothing SET a = 1"))
	m := st.leaves("x")
	st.answer(m, handoff.TypeAck)
	pid := st.record(m).Live.Leases[0].PID
	before := st.openNow()
	fds := make([]int, len(m.FDs))
	for i, fd := range m.FDs {
		var err error
		if fds[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			t.Fatal(err)
		}
	}
	from := &intake.Link{}
	told := make(chan bool, 1)
	st.on(func() {
		st.arriving["x"] = &arrival{rec: st.record(m), fds: fds, from: from, requests: []func(bool){func(found bool) { told <- found }}}
	})
	st.Own("x", nil)    // over another link
	st.Disown("x", nil) // likewise
	st.on(func() {
		if st.arriving["x"] == nil {
			t.Error("it is disowned for another link's sake")
		}
	})
	st.Disown("x", from) // over this one
	if <-told {
		t.Error("a cancel request is told that the session is here")
	}
	st.on(func() {
		if len(st.clients)+len(st.arriving) > 0 {
			t.Error("the session is here")
		}
	})
	if after := st.openNow(); after != before {
		t.Errorf("%d descriptors are open, were %d", after, before)
	}
	if !poll.Silent(m.FDs[0]) || !poll.Silent(m.FDs[1]) {
		t.Error("one of its connections has ended")
	}
	st.returns(m) // somebody has it, and brings it here
	p.exchange(wire.AppendQuery(nil, "UPDATE nothing SET a = 2"))
	if got := p.pid(); got != itoa(pid) {
		t.Errorf("it goes on with server process %s instead of %d", got, pid)
	}
	p.exchange(wire.AppendQuery(nil, "COMMIT"))
}

// openNow counts the open descriptors of this process.
func (st *station) openNow() int {
	st.t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		st.t.Fatal(err)
	}
	return len(es)
}

// Of the sessions of a router that stops few are on their way whose clients wait: others are
// served where they are until one of them has arrived.
func fewAreOnTheirWay(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	for i := range hurriesAtOnce + 2 {
		name := strconv.Itoa(i)
		joinSession(t, st.Engine, name).exchange(wire.AppendQuery(nil, "SELECT 1"))
		st.on(func() { st.clients[name].started = st.now.Add(20 * patience) }) // it is at work however long this takes
	}
	st.Stop(2 * patience)
	var away []string
	taken := 0
	takes := func() {
		t.Helper()
		m := st.gets()
		handoff.CloseFDs(m.FDs)
		away = append(away, st.record(m).Session)
		taken++
		if err := st.Send(handoff.TypeAck, handoff.SessionRef{Session: st.record(m).Session}); err != nil {
			t.Fatal(err)
		}
		st.haveMoved(taken)
	}
	for range hurriesAtOnce {
		takes()
	}
	for left := 2; left > 0; left-- {
		st.on(func() {
			if len(st.clients) != left || len(st.awaited) != hurriesAtOnce || len(st.departing) > 0 {
				t.Errorf("%d sessions are here, %d on their way and %d being offered; want %d, %d and none", len(st.clients), len(st.awaited), len(st.departing), left, hurriesAtOnce)
			}
		})
		if left == 2 { // of the others nothing is heard, and they are not waited for for ever
			if err := st.Send(handoff.TypeArrived, handoff.Arrived{Sessions: append(away[:1], "another")}); err != nil {
				t.Fatal(err)
			}
		}
		away = away[1:]
		takes()
	}
}

// Sessions that come together are read together, however long the loop takes for each.
func arrivingTogether(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	gate := make(chan struct{})
	if !st.Post(func() { <-gate }) {
		t.Fatal("the loop has ended")
	}
	for i := range 3 {
		_, ours := handofftest.Ends(t)
		rec := &handoff.Record{Session: strconv.Itoa(i), User: lab.User, Database: lab.Database, Protocol: 3 << 16, Cancel: handoff.CancelKey{PID: uint32(i + 1), Secret: []byte{1, 2, 3, 4}}}
		if err := st.SendSession(rec, ours); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(ours)
	}
	st.await("all are read", func() bool { return st.unsent() == 0 })
	close(gate)
	for i := range 3 {
		m, err := st.Receive()
		var ref handoff.SessionRef
		if err != nil || m.Type != handoff.TypeAck || m.Unmarshal(&ref) != nil || ref.Session != strconv.Itoa(i) {
			t.Fatalf("received %+v, %v; want session %d to be acknowledged", m, err, i)
		}
	}
}

// A session that comes while its client waits is at work in the same turn of the loop.
func atWorkAtOnce(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	p := joinSession(t, st.Engine, "x")
	request := wire.AppendQuery(nil, "SELECT 1")
	p.exchange(request)
	m := st.leaves("x")
	st.answer(m, handoff.TypeAck)
	if _, err := unix.Write(p.fd, request); err != nil {
		t.Fatal(err)
	}
	gate, works := make(chan struct{}), make(chan bool, 1)
	if !st.Post(func() { <-gate }) {
		t.Fatal("the loop has ended")
	}
	st.Adopt(st.record(m), m.FDs, st.opts.Way())
	if !st.Post(func() {
		c := st.clients["x"]
		works <- c != nil && c.s.Phase() != session.Idle
	}) {
		t.Fatal("the loop has ended")
	}
	close(gate)
	if !<-works {
		t.Error("it is not")
	}
	p.untilReady()
}

// Of a session that another has taken nothing is left here, and nothing is shut down.
func takenByAnother(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	p := joinSession(t, st.Engine, "x")
	p.exchange(wire.AppendQuery(nil, "BEGIN"))
	p.pid()
	m := st.leaves("x")
	st.answer(m, handoff.TypeAck)
	for _, fd := range m.FDs {
		if !poll.Silent(fd) {
			t.Error("one of its connections has ended")
		}
	}
	handoff.CloseFDs(m.FDs)
	if said := p.end(); said != "" { // the last copy of its socket is closed
		t.Errorf("its client is told %q", said)
	}
}

// Of many sessions that leave some are offered at a time, and those again that nobody takes.
func someAreOfferedAtATime(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	const sessions = departuresAtOnce + 3
	for i := range sessions {
		joinSession(t, st.Engine, strconv.Itoa(i))
	}
	st.Stop(10 * patience)
	var offered []*handoff.Message
	gets := func() {
		t.Helper()
		m := st.gets()
		handoff.CloseFDs(m.FDs)
		offered = append(offered, m)
	}
	for range departuresAtOnce {
		gets()
	}
	st.on(func() {
		if len(st.departing) != departuresAtOnce || len(st.clients) != sessions-departuresAtOnce {
			t.Errorf("%d sessions are being offered, %d are here", len(st.departing), len(st.clients))
		}
	})
	answers := func(typ handoff.Type) {
		t.Helper()
		if err := st.Send(typ, handoff.SessionRef{Session: st.record(offered[0]).Session, Reason: "told to", Alone: true}); err != nil {
			t.Fatal(err)
		}
		offered = offered[1:]
	}
	answers(handoff.TypeRefuse)
	for range sessions + 1 - departuresAtOnce {
		answers(handoff.TypeAck)
		gets()
	}
	for len(offered) > 0 {
		answers(handoff.TypeAck)
	}
	st.haveMoved(sessions)
}

// unsent is how many bytes the router has not read yet.
func (st *station) unsent() (n int) {
	st.t.Helper()
	raw, err := st.raw.SyscallConn()
	if err != nil {
		st.t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
		st.t.Fatal(err)
	}
	if err != nil {
		st.t.Fatal(err)
	}
	return n
}
