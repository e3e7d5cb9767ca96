package busserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

const patience = 60 * time.Second

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func startWith(t *testing.T, d *rundir.Dir, id string, b config.Bus) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Bus: b, Claim: claim(t, d, id), Dir: d, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// joined waits until each of the servers is joined with all others.
func joined(t *testing.T, servers ...*Server) {
	t.Helper()
	for i, s := range servers {
		until(t, fmt.Sprintf("server %d is joined with the others", i), func() bool { return s.Routes() == len(servers)-1 })
	}
}

// own connects to one server as the lagpoller that runs it does.
func own(t *testing.T, d *rundir.Dir, s *Server, b config.Bus) *nats.Conn {
	t.Helper()
	nc, err := bus.Connect(t.Context(), d, bus.Options{Name: "own", Log: quiet, InProcess: s, Bus: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// listener gives what a connection hears of lag.
func listener(t *testing.T, nc *nats.Conn) chan string {
	t.Helper()
	heard := make(chan string, 256)
	if _, err := nc.Subscribe(bus.SubjectLag+">", func(m *nats.Msg) { heard <- string(m.Data) }); err != nil {
		t.Fatal(err)
	}
	return heard
}

// Whoever listens to one lagpoller of a run directory, as an operator or a service,
// hears all of them, and when his own ends he goes on with another.
func TestLagpollersOfOneDirectoryAreOneBus(t *testing.T) {
	d := tempRun(t)
	b := config.Bus{Listen: labtest.FreeAddress(t)}
	servers := map[string]*Server{}
	publishers := map[string]*nats.Conn{}
	begin := func(id string) {
		servers[id] = startWith(t, d, id, b)
		publishers[id] = own(t, d, servers[id], config.Bus{})
	}
	all := func() (out []*Server) {
		for _, s := range servers {
			out = append(out, s)
		}
		return out
	}
	for _, id := range []string{"1", "2", "3"} {
		begin(id)
	}
	joined(t, all()...)
	var ears []chan string
	for range 6 {
		svc := service(t, d)
		ears = append(ears, listener(t, svc))
		flush(t, svc)
		nc, err := nats.Connect("nats://"+b.Listen, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		ears = append(ears, listener(t, nc))
		flush(t, nc)
	}
	everybodyHears := func(round string) {
		t.Helper()
		for id, nc := range publishers {
			for i, heard := range ears {
				hear(t, nc, heard, fmt.Sprintf("%s of %s for %d", round, id, i))
			}
		}
	}
	everybodyHears("first")
	for _, id := range []string{"1", "2", "3"} {
		publishers[id].Close()
		delete(publishers, id)
		if err := servers[id].Close(); err != nil {
			t.Fatal(err)
		}
		if err := servers[id].o.Claim.Close(); err != nil {
			t.Fatal(err)
		}
		delete(servers, id)
		everybodyHears("without " + id)
		until(t, "the common name leads to one that is left", func() bool { return answers(t.Context(), d.Join(bus.SocketName)) })
		begin(id)
		joined(t, all()...)
		everybodyHears("again with " + id)
	}
}

// A lagpoller that hangs takes connections and answers nothing.
func TestAHungLagpollerIsLeft(t *testing.T) {
	d := tempRun(t)
	hung := claim(t, d, "1")
	l, err := hung.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := startWith(t, d, "2", config.Bus{})
	for range 4 { // whichever they look at first
		heard := listener(t, service(t, d))
		hear(t, own(t, d, s, config.Bus{}), heard, "news")
	}
}

func secretFile(t *testing.T, letter string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(strings.Repeat(letter, 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Two hosts, one of them with two lagpollers that have one address for the others.
func TestLagpollersOfSeveralHostsAreOneBus(t *testing.T) {
	secret := secretFile(t, "s")
	one, two := labtest.FreeAddress(t), labtest.FreeAddress(t)
	first := config.Bus{SecretFile: secret, Cluster: config.BusCluster{Listen: one, Routes: []string{one, two}}} // its own among them
	second := config.Bus{SecretFile: secret, Cluster: config.BusCluster{Listen: two, Routes: []string{one, two}}}
	d1, d2 := tempRun(t), tempRun(t)
	a, b, c := startWith(t, d1, "1", first), startWith(t, d1, "2", first), startWith(t, d2, "1", second)
	joined(t, a, b, c)
	var ears []chan string
	for _, at := range []struct {
		d *rundir.Dir
		s *Server
	}{{d1, a}, {d1, b}, {d2, c}} {
		ears = append(ears, listener(t, own(t, at.d, at.s, first)))
	}
	for _, publisher := range []*nats.Conn{own(t, d1, a, first), own(t, d1, b, first), own(t, d2, c, first)} {
		for i, heard := range ears {
			hear(t, publisher, heard, fmt.Sprint("for ", i, " from ", publisher.ConnectedServerName()))
		}
	}
	// The one with the well-known port is replaced.
	a.Close()
	if err := a.o.Claim.Close(); err != nil {
		t.Fatal(err)
	}
	joined(t, b, c)
	joined(t, startWith(t, d1, "1", first), b, c)
}

// Nobody joins the buses without their secret, encrypted or not.
func TestAStrangersServerIsNotJoined(t *testing.T) {
	other, err := bus.Credential(tempRun(t), "")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := routeTLS(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, tlsConfig := range map[string]*tls.Config{
		"without TLS":         nil,
		"without certificate": {InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
		"with another secret": {Certificates: theirs.Certificates, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
	} {
		t.Run(name, func(t *testing.T) {
			d := tempRun(t)
			refusals := make(chan string, 64)
			s, err := Start(t.Context(), Options{Claim: claim(t, d, "1"), Dir: d, Log: slog.New(reasonTap{refusals})})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			notes, err := neighbours(d, "")
			if err != nil || len(notes) != 1 {
				t.Fatalf("notes %+v, %v", notes, err)
			}
			stranger, err := server.NewServer(&server.Options{
				Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, ServerName: "stranger",
				Cluster: server.ClusterOpts{Name: clusterName, Host: "127.0.0.1", Port: -1, TLSConfig: tlsConfig, TLSTimeout: 5, PoolSize: -1},
				Routes:  []*url.URL{{Scheme: "nats-route", Host: notes[0].Route}},
			})
			if err != nil {
				t.Fatal(err)
			}
			stranger.Start()
			defer stranger.WaitForShutdown()
			defer stranger.Shutdown()
			for told := false; !told; {
				select {
				case why := <-refusals:
					told = strings.Contains(why, "TLS route handshake error")
				case <-time.After(patience):
					t.Fatal("it was not refused")
				}
			}
			if n := s.Routes(); n != 0 {
				t.Errorf("%d routes", n)
			}
		})
	}
}

// reasonTap is a log handler that passes on why somebody was refused.
type reasonTap struct{ ch chan string }

func (h reasonTap) Enabled(context.Context, slog.Level) bool { return true }
func (h reasonTap) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h reasonTap) WithGroup(string) slog.Handler            { return h }
func (h reasonTap) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "why" {
			h.ch <- a.Value.String()
		}
		return true
	})
	return nil
}

// Without bus.listen there is no door for operators, not even the port that the server
// itself cannot do without.
func TestWithoutAnAddressOnlyServicesEnter(t *testing.T) {
	d := tempRun(t)
	s := startWith(t, d, "1", config.Bus{})
	if s.Addr() != nil {
		t.Errorf("it listens on %s", s.Addr())
	}
	if _, err := nats.Connect(s.server().ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stranger: %v", err)
	}
}

// Another installation's lagpoller is a program like any other.
func TestAnotherDirectorysPortIsTaken(t *testing.T) {
	b := config.Bus{Listen: labtest.FreeAddress(t)}
	startWith(t, tempRun(t), "1", b)
	d := tempRun(t)
	_, err := Start(t.Context(), Options{Bus: b, Claim: claim(t, d, "1"), Dir: d, Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "is taken by another program") {
		t.Fatalf("got %v", err)
	}
}

// A build that leaves other notes is done without, and does not keep this one from
// starting.
func TestANoteThatIsNotUnderstood(t *testing.T) {
	d := tempRun(t)
	if err := claim(t, d, "9").Note("?"); err != nil {
		t.Fatal(err)
	}
	if err := claim(t, d, "8").Note(`{"listen": "x:1", "later": true}`); err != nil {
		t.Fatal(err)
	}
	startWith(t, d, "1", config.Bus{})
}

// All of them at once: whoever is second sees the first.
func TestLagpollersThatStartTogetherFindEachOther(t *testing.T) {
	d := tempRun(t)
	b := config.Bus{Listen: labtest.FreeAddress(t), SecretFile: secretFile(t, "s"), Cluster: config.BusCluster{Listen: labtest.FreeAddress(t)}}
	const n = 4
	type result struct {
		s   *Server
		err error
	}
	results := make(chan result, n)
	for i := range n {
		c := claim(t, d, fmt.Sprint(i))
		go func() {
			s, err := Start(context.WithoutCancel(t.Context()), Options{Bus: b, Claim: c, Dir: d, Log: quiet})
			results <- result{s, err}
		}()
	}
	var servers []*Server
	for range n {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		defer r.s.Close()
		servers = append(servers, r.s)
	}
	joined(t, servers...)
}

// Other hosts find somebody at the address that they were told, whichever of a host's
// lagpollers had it and was started again.
func TestSomebodyHasTheAddressForOtherHosts(t *testing.T) {
	d := tempRun(t)
	b := config.Bus{SecretFile: secretFile(t, "s"), Cluster: config.BusCluster{Listen: labtest.FreeAddress(t)}}
	servers := []*Server{startWith(t, d, "1", b), startWith(t, d, "2", b)}
	for i, id := range []string{"1", "2", "1"} {
		s := servers[i%2]
		if err := errors.Join(s.Close(), s.o.Claim.Close()); err != nil {
			t.Fatal(err)
		}
		servers[i%2] = startWith(t, d, id, b)
		joined(t, servers...)
		c, err := net.Dial("tcp", b.Cluster.Listen)
		if err != nil {
			t.Fatalf("after the restart of %s: %v", id, err)
		}
		c.Close()
	}
}
