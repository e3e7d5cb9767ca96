package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse/poison"
	"github.com/pgpilot/pgpilot/services/classifier/internal/quarantine"
)

// startBus is a NATS server behind bus.sock.
func (s *stand) startBus() {
	key, err := bus.Credential(s.dir, "")
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		Nkeys: []*server.NkeyUser{{Nkey: key.Public}}})
	if err != nil {
		s.t.Fatal(err)
	}
	go n.Start()
	s.t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	if !n.ReadyForConnections(patience) {
		s.t.Fatal("the bus does not start")
	}
	l, err := net.Listen("unix", s.dir.Join(bus.SocketName))
	if err != nil {
		s.t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", n.Addr().String())
			if err != nil {
				c.Close()
				return
			}
			conns.Go(func() { _, _ = io.Copy(up, c); up.Close() })
			conns.Go(func() { _, _ = io.Copy(c, up); c.Close() })
		}
	})
	s.t.Cleanup(func() { l.Close(); n.Shutdown(); conns.Wait() })
}

// joinBus connects the test as a service.
func (s *stand) joinBus() *nats.Conn {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	nc, err := bus.Connect(ctx, s.dir, bus.Options{Name: "test", Log: slog.New(slog.NewTextHandler(s.t.Output(), nil))})
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cancel(); nc.Close() })
	return nc
}

// onBus waits until both the classifier and the test are connected.
func (s *stand) onBus(id string, nc *nats.Conn) {
	s.t.Helper()
	until(s.t, "the classifier finds the bus", func() bool { return nc.IsConnected() && s.metric(id, "pgpilot_bus_connected") == 1 })
}

func TestFreshVerdictsAreSeenOnTheBus(t *testing.T) {
	s := newStand(t)
	s.start("1") // before there is a bus
	c := s.client()
	connected(t, c, 1)
	wantKind(t, c, noCatalog(1), verdict.Write)
	s.startBus()
	nc := s.joinBus()
	seen := make(chan bus.Verdict, 100)
	if _, err := bus.Subscribe(nc, bus.SubjectVerdict+"*", nil, func(m bus.Verdict) { seen <- m }); err != nil {
		t.Fatal(err)
	}
	s.onBus("1", nc)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, c, noCatalog(1), verdict.Write) // known, so no news
	wantKind(t, c, "LISTEN x", verdict.Write)   // of a database of which nothing is known: nor is that
	wantKind(t, c, noCatalog(2), verdict.Write)
	select {
	case m := <-seen:
		key, v, err := verdict.FromMessage(m)
		if err != nil || key != keyOf(t, noCatalog(2)) || v.Effects != verdict.Unparsable|verdict.Unproven || m.Database != "app" {
			t.Fatalf("seen %+v, %v", m, err)
		}
	case <-time.After(patience):
		t.Fatal("nothing was published")
	}
}

// noCatalog is a text that is judged without asking what names stand for, so that its verdict
// is kept, and published, although no database is there.
func noCatalog(i int) string { return fmt.Sprintf("SELECT c%d FROM", i) }

// snapshot is everything that classifiers tell who starts.
func snapshot(t *testing.T, nc *nats.Conn) (flushes map[string]uint64, verdicts map[string]bus.Verdict) {
	t.Helper()
	flushes, verdicts = make(map[string]uint64), make(map[string]bus.Verdict)
	err := bus.Collect(t.Context(), nc, bus.SubjectVerdictSnapshot, time.Second, nil, func(m bus.VerdictSnapshot) {
		for _, f := range m.Flushes {
			flushes[f.Database] = f.Generation
		}
		for _, v := range m.Verdicts {
			verdicts[v.Key] = v
		}
	})
	if err != nil && !bus.Offline(err) && !errors.Is(err, bus.ErrSilence) {
		t.Fatal(err)
	}
	return flushes, verdicts
}

func TestASuccessorTakesOver(t *testing.T) {
	const templates = 200
	s := newStand(t)
	s.startBus()
	nc := s.joinBus()
	one := s.start("1")
	c := s.client()
	connected(t, c, 1)
	askAll := func() {
		for i := range templates {
			wantKind(t, c, noCatalog(i), verdict.Write)
		}
	}
	askAll()
	until(t, "it tells what it knows", func() bool { _, v := snapshot(t, nc); return len(v) == templates })
	s.start("2")
	connected(t, c, 2)
	until(t, "the other has learned it", func() bool {
		return s.metric("2", "pgpilot_classifier_cache_learned_total") == templates
	})
	one.stop(syscall.SIGKILL)
	connected(t, c, 1)
	askAll()
	if n := s.metric("2", "pgpilot_classifier_cache_misses_total"); n != 0 {
		t.Errorf("the successor had to judge %v of %d statements", n, templates)
	}
}

// Routers listen on a subject that covers that of the request for a snapshot. A
// classifier that starts after them must not wait for their answer for ever: it
// answers others only when it has stopped asking.
func TestAClassifierThatStartsAfterRoutersTellsWhatItKnows(t *testing.T) {
	s := newStand(t)
	s.startBus()
	nc := s.joinBus()
	if _, err := bus.Subscribe(nc, bus.SubjectVerdict+"*", nil, func(bus.Verdict) {}); err != nil {
		t.Fatal(err)
	}
	until(t, "the listener is there", func() bool { return nc.IsConnected() && nc.Flush() == nil })
	s.start("1")
	c := s.client()
	connected(t, c, 1)
	wantKind(t, c, noCatalog(1), verdict.Write)
	until(t, "it tells what it knows", func() bool { _, v := snapshot(t, nc); return len(v) == 1 })
}

// Clearing the quarantine makes routers forget what they were told meanwhile.
func TestAReleaseFromQuarantineIsAFlush(t *testing.T) {
	s := newStand(t)
	s.startBus()
	nc := s.joinBus()
	s.start("1")
	c := s.client()
	connected(t, c, 1)
	s.onBus("1", nc)
	flushed := make(chan bus.Flush, 10)
	if _, err := bus.Subscribe(nc, bus.SubjectVerdictFlush, nil, func(m bus.Flush) { flushed <- m }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, c, poisoned(poison.Crash), verdict.Write)
	wantKind(t, c, "SELECT 1", verdict.Read)
	if err := os.Remove(s.dir.Join(quarantine.FileName)); err != nil {
		t.Fatal(err)
	}
	m := <-flushed
	if m.Database != "app" || m.Generation == 0 {
		t.Fatalf("flushed %+v", m)
	}
	until(t, "a snapshot tells of the flush and of no older verdict", func() bool {
		f, v := snapshot(t, nc)
		return f["app"] == m.Generation && len(v) == 0
	})
}

// A clock that is set back, with nobody there who remembers, makes no flush look old: routers
// would go on with what they know and keep nothing new.
func TestAFlushIsNewWhateverTheClockSays(t *testing.T) {
	s := newStand(t)
	s.startBus()
	nc := s.joinBus()
	one := s.start("1")
	c := s.client()
	connected(t, c, 1)
	s.onBus("1", nc)
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	heard, err := bus.Encode(bus.Flush{V: bus.Version, Database: "app", Generation: ahead})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a flush from before the clock was set back is known", func() bool {
		if err := nc.Publish(bus.SubjectVerdictFlush, heard); err != nil {
			t.Fatal(err)
		}
		f, _ := snapshot(t, nc)
		return f["app"] == ahead
	})
	one.stop(syscall.SIGKILL)
	connected(t, c, 0)

	s.start("2")
	connected(t, c, 1)
	s.onBus("2", nc)
	flushed := make(chan bus.Flush, 10)
	if _, err := bus.Subscribe(nc, bus.SubjectVerdictFlush, nil, func(m bus.Flush) { flushed <- m }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, c, poisoned(poison.Crash), verdict.Write)
	if err := os.Remove(s.dir.Join(quarantine.FileName)); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-flushed:
		if m.Database != "app" || m.Generation <= ahead {
			t.Errorf("flushed %+v, which looks older than %d", m, ahead)
		}
	case <-time.After(patience):
		t.Fatal("no flush")
	}
}
