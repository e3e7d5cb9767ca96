package busserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func tempRun(t *testing.T) *rundir.Dir {
	t.Helper()
	p, err := os.MkdirTemp("", "bs") // short: socket paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p) })
	d, err := rundir.Open(filepath.Join(p, "run"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func claim(t *testing.T, d *rundir.Dir, id string) *rundir.Claim {
	t.Helper()
	c, err := d.Claim(rundir.Lagpoller, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func start(t *testing.T, d *rundir.Dir, c *rundir.Claim, listen string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Bus: config.Bus{Listen: listen}, Claim: c, Dir: d, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func service(t *testing.T, d *rundir.Dir) *nats.Conn {
	t.Helper()
	nc, err := bus.Connect(t.Context(), d, bus.Options{Name: "service", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// stranger connects as anyone on the network can; its refusals arrive on the channel.
func stranger(t *testing.T, s *Server) (*nats.Conn, chan error) {
	t.Helper()
	refused := make(chan error, 64)
	nc, err := nats.Connect("nats://"+s.Addr().String(), nats.Timeout(patience), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, refused
}

func flush(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := sub.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAStrangerCannotPublish(t *testing.T) {
	d := tempRun(t)
	s := start(t, d, claim(t, d, "1"), "127.0.0.1:0")
	svc := service(t, d)
	all, err := svc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	flush(t, svc)
	nc, refused := stranger(t, s)
	for _, subject := range []string{
		"pgpilot.lag.r1", bus.SubjectTopology, bus.SubjectFenceWant, "pgpilot.verdict.db", bus.SubjectVerdictFlush, bus.SubjectVerdictSnapshot,
		"pgpilot.cancel", "pgpilot.control.router", "_INBOX.x", "_PGPILOT.x", "_R_.x", "other",
	} {
		if err := nc.Publish(subject, []byte(`{"v":1}`)); err != nil {
			t.Fatal(err)
		}
		flush(t, nc)
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), subject) {
				t.Errorf("%s: got %v, want a permission violation", subject, err)
			}
		case <-time.After(patience):
			t.Errorf("publishing on %s was not refused", subject)
		}
	}
	// A request that names a subject of the services as its reply: whatever a
	// service answers must not arrive there.
	if _, err := svc.Subscribe(bus.SubjectLagSnapshot, func(m *nats.Msg) { _ = m.Respond([]byte("answer")) }); err != nil {
		t.Fatal(err)
	}
	flush(t, svc)
	if err := nc.PublishRequest(bus.SubjectLagSnapshot, bus.SubjectTopology, nil); err != nil {
		t.Fatal(err)
	}
	flush(t, nc)
	if m := next(t, all); m.Subject != bus.SubjectLagSnapshot {
		t.Errorf("services received %s, which a stranger sent", m.Subject)
	}
	// The answer has come back through the service's own connection once a
	// message published after it is here.
	if err := svc.Publish("end", nil); err != nil {
		t.Fatal(err)
	}
	for m := next(t, all); m.Subject != "end"; m = next(t, all) {
		if !strings.HasPrefix(m.Subject, "_R_.") {
			t.Errorf("services received %s %q because of a stranger", m.Subject, m.Data)
		}
	}
}

func TestAStrangerCanWatchAndAsk(t *testing.T) {
	d := tempRun(t)
	s := start(t, d, claim(t, d, "1"), "127.0.0.1:0")
	svc := service(t, d)
	if _, err := bus.Register(svc, "router", "7", "dev"); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Register(svc, "router", "8", "1.2.3"); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{bus.SubjectLagSnapshot, bus.SubjectTopologySnapshot} {
		if _, err := svc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(m.Subject)) }); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, svc)
	nc, _ := stranger(t, s)
	sub, err := nc.SubscribeSync("pgpilot.>")
	if err != nil {
		t.Fatal(err)
	}
	flush(t, nc)
	if err := svc.Publish("pgpilot.lag.r1", []byte("news")); err != nil {
		t.Fatal(err)
	}
	if m := next(t, sub); string(m.Data) != "news" {
		t.Errorf("heard %q", m.Data)
	}
	for _, subject := range []string{bus.SubjectLagSnapshot, bus.SubjectTopologySnapshot} {
		m, err := nc.Request(subject, nil, patience)
		if err != nil || string(m.Data) != subject {
			t.Errorf("request %s: %v, %v", subject, m, err)
		}
	}
	// What `nats micro ls` does: one question, an answer from every instance.
	inbox := nats.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("$SRV.INFO", inbox, nil); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		var info struct {
			Name     string
			Metadata map[string]string
		}
		if err := json.Unmarshal(next(t, answers).Data, &info); err != nil {
			t.Fatal(err)
		}
		if info.Name != "pgpilot-router" {
			t.Fatalf("service %+v", info)
		}
		seen[info.Metadata["instance"]] = true
	}
}

func TestAStrangerCannotListenElsewhere(t *testing.T) {
	d := tempRun(t)
	s := start(t, d, claim(t, d, "1"), "127.0.0.1:0")
	nc, refused := stranger(t, s)
	for _, subject := range []string{">", "$SRV.>", "_PGPILOT.>", "$SYS.>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		flush(t, nc)
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: got %v, want a permission violation", subject, err)
			}
		case <-time.After(patience):
			t.Errorf("subscribing to %s was not refused", subject)
		}
	}
}

func TestTheSocketAloneMakesNoService(t *testing.T) {
	d := tempRun(t)
	start(t, d, claim(t, d, "1"), "")
	other := tempRun(t) // another credential
	// Without the directory's credential even its own user is only an operator or refused.
	if err := os.Symlink(d.Join(bus.SocketName), other.Join(bus.SocketName)); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 16)
	nc, err := bus.Connect(t.Context(), other, bus.Options{Name: "x", Log: slog.New(errorTap{refused})})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	// The refusal may cross with what the client still sends, which then fails.
	deadline := time.After(patience)
	for {
		select {
		case err := <-refused:
			if errors.Is(err, nats.ErrAuthorization) {
				return
			}
		case <-deadline:
			t.Fatal("a wrong credential was not refused")
		}
	}
}

// errorTap is a log handler that passes on the error attribute of each record.
type errorTap struct{ ch chan error }

func (h errorTap) Enabled(context.Context, slog.Level) bool { return true }
func (h errorTap) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h errorTap) WithGroup(string) slog.Handler            { return h }
func (h errorTap) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			select {
			case h.ch <- err:
			default:
			}
		}
		return true
	})
	return nil
}

func TestATakenPortIsOneSentence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := tempRun(t)
	_, err = Start(t.Context(), Options{Bus: config.Bus{Listen: l.Addr().String()}, Claim: claim(t, d, "1"), Dir: d, Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "is taken by another program") {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{d.Join(bus.SocketName), d.Socket(rundir.Lagpoller, "1")} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("a failed start left %s (%v)", name, err)
		}
	}
}

// A client that starts before the bus, and lives through its restarts, hears
// everything that is published while a bus is there. One of the restarts leaves
// the dead socket behind, as kill -9 does.
func TestClientsFindTheBusAgain(t *testing.T) {
	d := tempRun(t)
	c := claim(t, d, "1")
	early := service(t, d)
	if early.IsConnected() {
		t.Fatal("connected to a bus that is not there")
	}
	heard := make(chan string, 16)
	if _, err := early.Subscribe("pgpilot.lag.>", func(m *nats.Msg) { heard <- string(m.Data) }); err != nil {
		t.Fatal(err)
	}
	for _, round := range []string{"first", "second", "third"} {
		s, err := Start(t.Context(), Options{Claim: c, Dir: d, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		nc, err := bus.Connect(t.Context(), d, bus.Options{Name: "publisher", Log: quiet, InProcess: s})
		if err != nil {
			t.Fatal(err)
		}
		hear(t, nc, heard, round)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		nc.Close()
		if round == "first" {
			leaveDeadSocket(t, c)
		}
	}
}

// hear publishes until the subscriber, which comes back in its own time, has heard it.
func hear(t *testing.T, nc *nats.Conn, heard chan string, text string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		select {
		case got := <-heard:
			if got == text {
				return
			}
		case <-tick.C:
			if err := nc.Publish("pgpilot.lag.r1", []byte(text)); err != nil {
				t.Fatal(err)
			}
		case <-deadline:
			t.Fatalf("a client did not hear the %s bus", text)
		}
	}
}

func leaveDeadSocket(t *testing.T, c *rundir.Claim) {
	t.Helper()
	for _, listen := range []func() (*rundir.Socket, error){c.Listen, func() (*rundir.Socket, error) { return c.ListenAs(bus.SocketName) }} {
		l, err := listen()
		if err != nil {
			t.Fatal(err)
		}
		l.Close() // keeps the name, refuses connections
	}
}
