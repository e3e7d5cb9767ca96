package engine

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

func TestConnectAlike(t *testing.T) {
	startup := []handoff.Parameter{{Name: "work_mem", Value: "1MB"}}
	zone := handoff.Parameter{Name: "TimeZone", Value: "US/Pacific"}
	refuses := func(code string) error { return &pgconn.PgError{Code: code} }
	for _, c := range []struct {
		name string
		// with and without are what the server says to a login with the given values and
		// without them; own is what it reports in the latter case.
		with, without error
		own           []handoff.Parameter
		attempts      int
		unlike        bool
		err           error
	}{
		{"takes them", nil, nil, nil, 1, false, nil},
		{"refuses the value", refuses("22023"), nil, []handoff.Parameter{{Name: "TimeZone", Value: "UTC"}}, 2, true, refuses("22023")},
		{"does not know the parameter", refuses("42704"), nil, nil, 2, true, refuses("42704")},
		{"has the value by itself", refuses("22023"), nil, []handoff.Parameter{zone}, 2, false, nil},
		{"refuses what the login gives", refuses("22023"), refuses("22023"), nil, 2, false, refuses("22023")},
		{"is full", refuses("53300"), nil, nil, 1, false, refuses("53300")},
	} {
		attempts := 0
		m, err := connectAlike(startup, []handoff.Parameter{zone}, func(params []handoff.Parameter) (*upstream.Made, error) {
			attempts++
			if slices.Contains(params, zone) {
				return &upstream.Made{FD: -1}, c.with
			}
			if !slices.Equal(params, startup) {
				t.Errorf("%s: logs in with %v", c.name, params)
			}
			return &upstream.Made{FD: -1, Parameters: c.own}, c.without
		})
		var u *unlike
		var pg, want *pgconn.PgError
		if attempts != c.attempts || errors.As(err, &u) != c.unlike || (c.err == nil) != (err == nil && m != nil) {
			t.Errorf("%s: %d attempts, %v", c.name, attempts, err)
		}
		if errors.As(c.err, &want) && (!errors.As(err, &pg) || pg.Code != want.Code) {
			t.Errorf("%s: %v", c.name, err)
		}
		if u != nil && u.parameter != zone {
			t.Errorf("%s: blames %v", c.name, u.parameter)
		}
	}
}

// testLogin is that of the sessions of these tests.
var testLogin = upstream.Login{User: lab.User, Database: lab.Database}

// onReplica gives the connections of a login's sessions to the replica.
func onReplica(e *Engine) []*server {
	if p := e.pools[poolKey{Backend: 1, User: lab.User, Database: lab.Database}]; p != nil {
		return p.all()
	}
	return nil
}

// logLines has what was logged.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// A server that refuses the primary's value keeps its other logins, and no others wait for it.
func TestAServerThatRefusesThePrimarysValue(t *testing.T) {
	lines := &logLines{}
	e := startEngineOf(t, labtest.Start(t, 1), func(o *Options) { o.Log = slog.New(slog.NewTextHandler(lines, nil)) })
	s := joinSession(t, e, "reads")
	// The primary has, so to speak, a time zone that the replica's system does not.
	zone := handoff.Parameter{Name: "TimeZone", Value: "US/Nowhere"}
	onLoop(t, e, func() bool {
		e.greeted(testLogin, []handoff.Parameter{zone})
		for _, s := range onReplica(e) {
			s.site.discard(s)
		}
		return true
	})
	for range 20 {
		s.exchange(wire.AppendQuery(nil, "SELECT 1"))
	}
	if n := onLoop(t, e, func() int { return len(onReplica(e)) }); n != 0 {
		t.Errorf("%d connections that answer otherwise", n)
	}
	if n := lines.count("reads stay off a server"); n != 1 {
		t.Errorf("said %d times: %s", n, lines.b.String())
	}
	if n := lines.count("cannot connect to server"); n != 0 {
		t.Errorf("denied: %s", lines.b.String())
	}
	if !onLoop(t, e, func() bool { e.tendPools(); return e.siteOf(1, testLogin).refuses("") }) {
		t.Error("a pool that has no connection is forgotten, with why it has none")
	}
	// One that says itself how answers are to look is served there as ever.
	startup := upstream.EncodeStartup([]handoff.Parameter{{Name: "TimeZone", Value: "UTC"}})
	onLoop(t, e, func() bool {
		p := e.siteOf(1, testLogin)
		if p.refuses(startup) || !p.refuses("") {
			t.Error("the wrong logins are refused")
		}
		// A value that it knows is tried at once.
		e.greeted(testLogin, []handoff.Parameter{{Name: "TimeZone", Value: "Etc/GMT-3"}})
		e.retire(testLogin)
		return true
	})
	for range 3 {
		s.exchange(wire.AppendQuery(nil, "SELECT 1"))
	}
	if n := onLoop(t, e, func() int { return len(onReplica(e)) }); n == 0 {
		t.Error("reads stay off the server for a value that it knows")
	}
}

// When the primary is configured otherwise, its connections say so with the next answer, and
// replicas are told the new values.
func TestReplicasFollowTheReloadedPrimary(t *testing.T) {
	cluster := labtest.Start(t, 1)
	e := startEngine(t, cluster)
	s, reader := joinSession(t, e, "writes"), joinSession(t, e, "reads")
	read, write := wire.AppendQuery(nil, "SELECT 1"), wire.AppendQuery(nil, "UPDATE nothing SET a = 1")
	for range 3 {
		reader.exchange(read)
	}
	s.exchange(write)
	zone := func() string {
		for _, p := range e.greetings[testLogin] {
			if p.Name == "TimeZone" {
				return p.Value
			}
		}
		return ""
	}
	was := onLoop(t, e, zone)
	before := onLoop(t, e, func() map[*server]bool {
		out := map[*server]bool{}
		for _, s := range onReplica(e) {
			out[s] = true
		}
		return out
	})
	if was == "" || len(before) == 0 {
		t.Fatalf("begins with %q and %d connections to the replica", was, len(before))
	}
	// What a session sets is its own business, also in a transaction that goes nowhere.
	for _, text := range []string{"SET TimeZone = 'Etc/GMT-4'", "RESET TimeZone", "BEGIN", "SET TimeZone = 'Etc/GMT-5'", "ROLLBACK", "BEGIN", "SET LOCAL TimeZone = 'Etc/GMT-6'", "COMMIT"} {
		s.exchange(wire.AppendQuery(nil, text))
	}
	if now := onLoop(t, e, zone); now != was {
		t.Fatalf("what a session sets is taken for the primary's: %s", now)
	}
	gone := bringSession(t, e, "goes", lab.User, lab.Database)
	gone.untilReady()
	for _, text := range []string{"BEGIN", "SET TimeZone = 'Etc/GMT-7'"} {
		gone.exchange(wire.AppendQuery(nil, text))
	}
	_ = unix.Shutdown(gone.fd, unix.SHUT_RDWR)
	awaitOnLoop(t, e, "the session is gone", func() bool {
		_, lent, _ := e.siteOf(0, testLogin).Counts()
		return lent == 0
	})
	if now := onLoop(t, e, zone); now != was {
		t.Fatalf("what a session has left is taken for the primary's: %s", now)
	}
	executeAs(t, cluster.Primary().SuperDSN(), "ALTER SYSTEM SET TimeZone = 'Etc/GMT-9'")
	executeAs(t, cluster.Primary().SuperDSN(), "SELECT pg_reload_conf()")
	for limit := time.Now().Add(time.Minute); onLoop(t, e, zone) != "Etc/GMT-9"; s.exchange(write) {
		if time.Now().After(limit) {
			t.Fatal("the primary's new value is never known")
		}
	}
	for range 3 {
		reader.exchange(read)
	}
	onLoop(t, e, func() bool {
		all := onReplica(e)
		for _, s := range all {
			if before[s] || !slices.Contains(s.given, handoff.Parameter{Name: "TimeZone", Value: "Etc/GMT-9"}) {
				t.Errorf("a connection of %v", s.given)
			}
		}
		if len(all) == 0 {
			t.Error("no read runs on the replica")
		}
		return true
	})
}

// A replica is promoted: its connections that have been given the former primary's values are not
// lent beside those that are made from then on and have its own.
func TestAPromotedServersConnectionsAreAlike(t *testing.T) {
	cluster := labtest.Start(t, 1)
	e := startEngine(t, cluster)
	writer, reader := joinSession(t, e, "writes"), joinSession(t, e, "reads")
	read, write := wire.AppendQuery(nil, "SELECT 1"), wire.AppendQuery(nil, "UPDATE nothing SET a = 1")
	writer.exchange(write)
	for range 3 {
		reader.exchange(read)
	}
	before := onLoop(t, e, func() map[*server]bool {
		out := map[*server]bool{}
		for _, s := range onReplica(e) {
			out[s] = len(s.given) > 0
		}
		return out
	})
	if len(before) == 0 {
		t.Fatal("there is no connection to the replica")
	}
	for _, given := range before {
		if !given {
			t.Error("a connection to the replica was given nothing: nothing is proven")
		}
	}
	// It is configured otherwise than the former one.
	executeAs(t, cluster.Replica(1).SuperDSN(), "ALTER SYSTEM SET TimeZone = 'Etc/GMT-9'")
	executeAs(t, cluster.Replica(1).SuperDSN(), "SELECT pg_reload_conf()")
	promoted := cluster.Replica(1)
	if err := cluster.Promote(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	e.Topology(leads(promoted.Name, 1, 2))
	for range 3 {
		writer.exchange(write)
		reader.exchange(read)
	}
	onLoop(t, e, func() bool {
		for _, s := range onReplica(e) {
			if before[s] || len(s.given) > 0 || !slices.Contains(s.params, handoff.Parameter{Name: "TimeZone", Value: "Etc/GMT-9"}) {
				t.Errorf("a connection was given %v and reports %v", s.given, s.params)
			}
		}
		return true
	})
}
