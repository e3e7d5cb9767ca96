package busserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// holder gives the one of the servers that takes routes at the address, nil if none does.
func holder(address string, servers ...*Server) *Server {
	for _, s := range servers {
		if a := s.server().ClusterAddr(); a != nil && a.String() == address {
			return s
		}
	}
	return nil
}

func leave(t *testing.T, s *Server) {
	t.Helper()
	if err := errors.Join(s.Close(), s.o.Claim.Close()); err != nil {
		t.Fatal(err)
	}
}

// Three lagpollers of one host end one after the other, the one that other hosts look for
// first: the next one has the address then, the other host stays joined with whoever is
// left, and so do the clients of this one.
func TestTheAddressForOtherHostsIsTakenOver(t *testing.T) {
	secret := secretFile(t, "s")
	here, there := labtest.FreeAddress(t), labtest.FreeAddress(t)
	b := config.Bus{Listen: labtest.FreeAddress(t), SecretFile: secret, Cluster: config.BusCluster{Listen: here, Routes: []string{there}}}
	other := config.Bus{SecretFile: secret, Cluster: config.BusCluster{Listen: there, Routes: []string{here}}}
	d, d2 := tempRun(t), tempRun(t)
	far := startWith(t, d2, "1", other)
	left := []*Server{startWith(t, d, "1", b), startWith(t, d, "2", b), startWith(t, d, "3", b)}
	joined(t, append(left, far)...)
	nc, err := nats.Connect("nats://"+b.Listen, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	operator := listener(t, nc)
	flush(t, nc)
	news := own(t, d2, far, other)
	for len(left) > 1 {
		has := holder(here, left...)
		if has == nil {
			t.Fatal("nobody has the address")
		}
		var rest []*Server
		for _, s := range left {
			if s != has {
				rest = append(rest, s)
			}
		}
		left = rest
		before := make(map[*Server]*server.Server)
		for _, s := range left {
			before[s] = s.server()
		}
		leave(t, has)
		until(t, "another one has the address", func() bool { return holder(here, left...) != nil })
		now := holder(here, left...)
		joined(t, append(left, far)...)
		hear(t, news, operator, "for an operator")
		hear(t, news, listener(t, own(t, d, now, b)), "for the lagpoller itself")
		until(t, "its server before has ended", func() bool { return !before[now].Running() })
	}
}

// What was said of the first server of a lagpoller holds for the one that it moves to.
func TestAfterTheMoveNobodyElseEnters(t *testing.T) {
	b := config.Bus{SecretFile: secretFile(t, "s"), Cluster: config.BusCluster{Listen: labtest.FreeAddress(t)}}
	d := tempRun(t)
	first, s := startWith(t, d, "1", b), startWith(t, d, "2", b)
	joined(t, first, s)
	leave(t, first)
	until(t, "it has the address", func() bool { return holder(b.Cluster.Listen, s) != nil })
	if _, err := nats.Connect(s.server().ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stranger: %v", err)
	}
	stranger := startWith(t, tempRun(t), "1", config.Bus{SecretFile: secretFile(t, "x"), Cluster: config.BusCluster{Listen: labtest.FreeAddress(t), Routes: []string{b.Cluster.Listen}}})
	friend := startWith(t, tempRun(t), "1", config.Bus{SecretFile: b.SecretFile, Cluster: config.BusCluster{Listen: labtest.FreeAddress(t), Routes: []string{b.Cluster.Listen}}})
	joined(t, s, friend)
	if n := stranger.Routes(); n != 0 {
		t.Errorf("a server with another secret is joined with %d", n)
	}
}

// detour leads to an address once it is open. It tells when somebody is there.
func detour(t *testing.T, address string) (l net.Listener, arrived, open chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arrived, open = make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		close(arrived)
		<-open
		to, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		wg.Go(func() { _, _ = io.Copy(c, to); c.Close() })
		_, _ = io.Copy(to, c)
		to.Close()
	})
	return l, arrived, open
}

// Nobody is left alone on the way: the clients are cut off when the next server is joined
// with all that theirs is joined with.
func TestTheNextServerIsJoinedFirst(t *testing.T) {
	secret := secretFile(t, "s")
	here, there := labtest.FreeAddress(t), labtest.FreeAddress(t)
	s := startWith(t, tempRun(t), "1", config.Bus{SecretFile: secret, Cluster: config.BusCluster{Listen: here, Routes: []string{there}}})
	far := startWith(t, tempRun(t), "1", config.Bus{SecretFile: secret, Cluster: config.BusCluster{Listen: there}})
	joined(t, s, far)
	way, arrived, open := detour(t, there)
	o := s.o
	o.Bus.Cluster.Routes = []string{way.Addr().String()}
	to, err := placeAt(labtest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	next, err := launch(t.Context(), o, s.key, to)
	if err != nil {
		close(open)
		t.Fatal(err)
	}
	defer end(next)
	done := make(chan error, 1)
	go func() { done <- awaitRoutes(t.Context(), next, s.server()) }()
	<-arrived
	select {
	case err := <-done:
		t.Errorf("it did not wait: %v", err)
		done <- err
	default:
	}
	close(open)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if names := joinedWith(next); !slices.Contains(names, far.server().Name()) { // which may have told the first of it
		t.Errorf("it is joined with %q", names)
	}
}

// record is a log that can be read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), text)
}

// Another program was faster: that is told, once, and the address is taken when it is free.
func TestAnotherProgramTakesTheAddressFirst(t *testing.T) {
	b := config.Bus{SecretFile: secretFile(t, "s"), Cluster: config.BusCluster{Listen: labtest.FreeAddress(t)}}
	d := tempRun(t)
	// A neighbour that has the address, as far as its note and the kernel say.
	neighbour := claim(t, d, "1")
	if err := (note{Cluster: b.Cluster.Listen}).leave(neighbour); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", b.Cluster.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var log record
	s, err := Start(t.Context(), Options{Bus: b, Claim: claim(t, d, "2"), Dir: d, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := neighbour.Close(); err != nil {
		t.Fatal(err)
	}
	const why = "is taken by another program: stop it"
	until(t, "the log says so", func() bool { return log.count(why) == 1 })
	// Two more attempts.
	for range 2 {
		if err := s.tryAddress(t.Context(), b.Cluster.Listen); err == nil || !strings.Contains(err.Error(), why) {
			t.Fatalf("an attempt: %v", err)
		}
	}
	l.Close()
	until(t, "it has the address", func() bool { return holder(b.Cluster.Listen, s) != nil })
	if n := log.count(why); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// A lagpoller that ends before it gets the address does not take it any more.
func TestTheEndOfOneThatWaitsForTheAddress(t *testing.T) {
	b := config.Bus{SecretFile: secretFile(t, "s"), Cluster: config.BusCluster{Listen: labtest.FreeAddress(t)}}
	d := tempRun(t)
	first, waits := startWith(t, d, "1", b), startWith(t, d, "2", b)
	leave(t, waits)
	leave(t, first)
	if p, err := placeAt(b.Cluster.Listen); err != nil || p.near != b.Cluster.Listen {
		t.Errorf("the address afterwards: %+v, %v", p, err)
	}
}

// When the move is given up, the neighbours are told of the place that is left.
func TestAMoveThatFails(t *testing.T) {
	b := config.Bus{SecretFile: secretFile(t, "s"), Cluster: config.BusCluster{Listen: labtest.FreeAddress(t)}}
	d := tempRun(t)
	s := startWith(t, d, "1", b)
	to, err := placeAt(labtest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", to.near) // somebody else is faster
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, try := range map[string]func() error{
		"somebody is faster": func() error { return s.move(t.Context(), to) },
		"it is to end":       func() error { return s.move(ended, place{host: "127.0.0.1", port: -1, near: "127.0.0.1:1"}) },
	} {
		if err := try(); err == nil {
			t.Fatalf("%s: it moved", name)
		}
		notes, err := neighbours(d, "")
		if err != nil || len(notes) != 1 || notes[0].Route != b.Cluster.Listen {
			t.Errorf("%s: notes %+v, %v", name, notes, err)
		}
		hear(t, own(t, d, s, b), listener(t, own(t, d, s, b)), name)
	}
}
