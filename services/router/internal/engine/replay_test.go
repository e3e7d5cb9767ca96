package engine

import (
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// elsewhere gives a configuration of a primary and replicas that nobody can connect to.
func elsewhere(replicas ...string) *config.Config {
	cfg := config.Default()
	cfg.Primary = config.Backend{Name: "primary", Address: "127.0.0.1:1"}
	for _, name := range replicas {
		cfg.Replicas = append(cfg.Replicas, config.Backend{Name: name, Address: "127.0.0.1:1"})
	}
	cfg.Monitor.User, cfg.Monitor.Password = "monitor", "monitor"
	return cfg
}

// standby is a replica that only says how far it has replayed.
type standby struct {
	timeline, lsn atomic.Uint64
}

func (s *standby) replay(to lsn.Position) {
	s.timeline.Store(uint64(to.Timeline))
	s.lsn.Store(uint64(to.LSN))
}

// answer gives what it says to a question.
func (s *standby) answer(sql string) ([]byte, error) {
	row := &pgproto3.DataRow{Values: [][]byte{[]byte(lsn.LSN(s.lsn.Load()).String())}}
	if sql == "IDENTIFY_SYSTEM" {
		row.Values = [][]byte{[]byte("7"), strconv.AppendUint(nil, s.timeline.Load(), 10), []byte("0/0"), nil}
	}
	b, err := row.Encode(nil)
	return wire.AppendReadyForQuery(b, wire.Idle), err
}

// connect gives the router's end of a connection to it.
func (s *standby) connect(t *testing.T) (fd int) {
	t.Helper()
	theirs, ours := handofftest.Ends(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var in []byte
		buf := make([]byte, 4096)
		for {
			n, err := unix.Read(theirs, buf)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n == 0 {
				return
			}
			in = append(in, buf[:n]...)
			for _, total, _ := wire.Header(in); total > 0 && len(in) >= total; _, total, _ = wire.Header(in) {
				sql, _ := wire.QueryText(in[:total])
				in = in[total:]
				answer, err := s.answer(string(sql))
				if err != nil {
					t.Error(err)
				}
				_, _ = unix.Write(theirs, answer) // the router may have gone
			}
		}
	}()
	t.Cleanup(func() {
		_ = unix.Shutdown(theirs, unix.SHUT_RDWR)
		<-ended
	})
	return ours
}

// lagOf is what a lagpoller says of a replica.
func lagOf(name string, run lsn.Incarnation, replayed lsn.LSN) bus.Lag {
	return bus.Lag{V: bus.Version, Backend: name, Role: bus.Replica, Healthy: true, Publisher: "1", Incarnation: run, ReplayLSN: replayed, LagMillis: -1}
}

// A replica that has replayed what a promotion has lost will replay nothing more of what the
// primary writes: asking it is in vain, and costs it and the router a question each few
// milliseconds. Made anew, it is asked again.
func TestAReplicaThatHasDivergedIsNotAsked(t *testing.T) {
	e := runEngine(t, elsewhere("diverged", "promoted"), func(*Options) {})
	leads := func(name string, generation uint64, timeline lsn.Timeline, ended ...lsn.Position) {
		e.Topology(bus.Topology{V: bus.Version, Generation: generation, Publisher: "1", Primary: name, SwitchPoints: ended, Members: []bus.Member{
			{Backend: name, Role: bus.Primary, Healthy: true, Incarnation: lsn.Incarnation{SystemID: 7, Timeline: timeline}},
		}})
	}
	run := lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: 1, Children: 1}
	leads("primary", 1, 1)
	e.Lag(lagOf("diverged", run, 100))
	var s standby
	r := onLoop(t, e, func() *replay { return &e.servers[1].replay })
	replayed := func() lsn.Position { return e.tracker.Table().Backends[1].Replayed }
	catchUp := func(to lsn.Position) {
		t.Helper()
		s.replay(to)
		fd := s.connect(t)
		onLoop(t, e, func() bool { r.connected(&upstream.Made{FD: fd, Run: run}); return true })
		awaitOnLoop(t, e, "it has said its timeline", func() bool { return r.ready })
		onLoop(t, e, func() bool { return e.askReplicas(to) })
		awaitOnLoop(t, e, fmt.Sprintf("it is asked and has replayed %+v", to), func() bool { return replayed() == to })
	}

	catchUp(lsn.Position{Timeline: 1, LSN: 200})
	wanted := lsn.Position{Timeline: 2, LSN: 300}
	onLoop(t, e, func() bool { return e.askReplicas(wanted) }) // is known of before the promotion is
	leads("promoted", 2, 2, lsn.Position{Timeline: 1, LSN: 150})
	awaitOnLoop(t, e, "it has answered", func() bool { return r.owed == 0 })
	if asked := onLoop(t, e, func() bool {
		r.start()
		e.askReplicas(wanted)
		return r.owed > 0 || r.next.Active()
	}); asked {
		t.Error("it is still asked")
	}
	if open := onLoop(t, e, func() bool { r.rest(time.Hour); return r.open }); open {
		t.Error("its connection is kept")
	}

	run.Timeline, run.Postmaster = 2, 2
	e.Lag(lagOf("diverged", run, 160))
	catchUp(wanted)
}

// A lagpoller that has not been told yet goes on asking the server that had the name before. One
// that reaches a server by another address than the router does is believed.
func TestNewsOfTheServerThatHadTheNameIsNotHeard(t *testing.T) {
	before, after := elsewhere("moved"), elsewhere("moved")
	before.Replicas[0].Address = "127.0.0.1:2"
	e := runEngine(t, before, func(*Options) {})
	e.Reload(after)
	moved := func() int { return e.tracker.Index("moved") }
	awaitOnLoop(t, e, "it is at its new address", func() bool { return moved() > 0 && e.servers[moved()].address == "127.0.0.1:1" })
	replayed := func() lsn.Position {
		return onLoop(t, e, func() lsn.Position { return e.tracker.Table().Backends[moved()].Replayed })
	}
	former := lagOf("moved", lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: 1, Children: 1}, 100)
	former.Address = "127.0.0.1:2"
	e.Lag(former)
	if at := replayed(); !at.IsZero() {
		t.Errorf("it has replayed %v, by the word about another server", at)
	}
	present := lagOf("moved", lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: 2, Children: 2}, 50)
	present.Address = "replica.example:5432"
	e.Lag(present)
	if at := replayed(); at.LSN != 50 {
		t.Errorf("it has replayed %v, want what it says itself", at)
	}
}

// A server of another cluster, and one whose name means another server elsewhere, are told about
// once: their news say nothing here.
func TestWhatSomebodyMustLookAfter(t *testing.T) {
	lines := &logLines{}
	cfg := elsewhere("stranger", "moved")
	cfg.Replicas[1].Address = "127.0.0.1:2"
	e := runEngine(t, cfg, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(lines, nil)) })
	other := lagOf("stranger", lsn.Incarnation{SystemID: 8, Timeline: 1, Postmaster: 1, Children: 1}, 100)
	e.Lag(other) // before it is known what the primary's is
	e.Topology(leads("primary", 1, 1))
	for range 3 {
		e.Lag(other)
	}
	abroad := lagOf("moved", lsn.Incarnation{SystemID: 7, Timeline: 1, Postmaster: 1, Children: 1}, 100)
	abroad.Address = "127.0.0.1:1" // is another server's
	for range 3 {
		e.Lag(abroad)
		onLoop(t, e, func() bool {
			if a := e.abroad["moved"]; a != nil {
				a.first = a.first.Add(-e.cfg.Health.StaleAfter.D())
			}
			return true
		})
	}
	for _, what := range []string{"it is of another database cluster than the primary", "news of a server are ignored"} {
		if n := lines.count(what); n != 1 {
			t.Errorf("%q is said %d times: %s", what, n, lines.b.String())
		}
	}
	if onLoop(t, e, func() bool { return follows(&e.tracker.Table().Backends[1]) }) {
		t.Error("a server of another cluster is asked how far it has replayed")
	}
}
