package upstream

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

var (
	login     = Credentials{User: lab.User, Password: lab.Password}
	attempt   = 30 * time.Second
	patience  = time.Minute
	noStartup []handoff.Parameter
)

// raw is a connection as the loop gets it, read and written with net for a test's
// convenience.
type raw struct {
	t *testing.T
	net.Conn
	fe *pgproto3.Frontend
	m  *Made
}

func open(t *testing.T, m *Made) *raw {
	t.Helper()
	f := os.NewFile(uintptr(m.FD), "server")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &raw{t: t, Conn: c, fe: pgproto3.NewFrontend(c, c), m: m}
}

func (r *raw) send(sql string) {
	r.t.Helper()
	r.fe.Send(&pgproto3.Query{String: sql})
	if err := r.fe.Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// answer gives the first value of the answer, or its error.
func (r *raw) answer() (value string, code string) {
	r.t.Helper()
	for {
		msg, err := r.fe.Receive()
		if err != nil {
			r.t.Fatal(err)
		}
		switch msg := msg.(type) {
		case *pgproto3.DataRow:
			value = string(msg.Values[0])
		case *pgproto3.ErrorResponse:
			code = msg.Code
		case *pgproto3.ReadyForQuery:
			return value, code
		}
	}
}

func (r *raw) query(sql string) string {
	r.t.Helper()
	r.send(sql)
	v, code := r.answer()
	if code != "" {
		r.t.Fatalf("%s: %s", sql, code)
	}
	return v
}

func connector(t *testing.T, m *lab.Member) *Connector {
	c := NewConnector(dial.Server{Host: m.Host, Port: uint16(m.Port)}, login, lab.Database, attempt)
	t.Cleanup(c.Close)
	return c
}

func TestConnect(t *testing.T) {
	cluster := labtest.Start(t, 0)
	primary := cluster.Primary()

	t.Run("login", func(t *testing.T) {
		c := connector(t, primary)
		startup := []handoff.Parameter{
			{Name: "application_name", Value: "it's me"}, {Name: "options", Value: "-c statement_timeout=12345 -c search_path=a,b"},
			{Name: "extra_float_digits", Value: "1"},
		}
		m, err := c.Connect(t.Context(), login, lab.Database, startup)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, m)
		for sql, want := range map[string]string{
			"SHOW application_name": "it's me", "SHOW statement_timeout": "12345ms", "SHOW search_path": "a,b",
			"SHOW extra_float_digits": "1", "SELECT current_user": lab.User, "SELECT current_database()": lab.Database,
		} {
			if got := r.query(sql); got != want {
				t.Errorf("%s: %q; want %q", sql, got, want)
			}
		}
		if got := r.query("SELECT pg_backend_pid()"); got == "" || m.PID == 0 || len(m.Secret) != 4 {
			t.Errorf("pid %d (really %s), secret of %d bytes", m.PID, got, len(m.Secret))
		}
		if i := slices.IndexFunc(m.Parameters, func(p handoff.Parameter) bool { return p.Name == "application_name" }); i < 0 || m.Parameters[i].Value != "it's me" {
			t.Errorf("the server's report %v is without application_name", m.Parameters)
		}
		if !slices.IsSortedFunc(m.Parameters, func(a, b handoff.Parameter) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%v is in no order: two logins of one kind would differ", m.Parameters)
		}
	})

	t.Run("over a Unix socket", func(t *testing.T) {
		c := NewConnector(dial.Server{Host: primary.SocketDir(), Port: uint16(primary.Port)}, login, lab.Database, attempt)
		t.Cleanup(c.Close)
		m, err := c.Connect(t.Context(), login, lab.Database, noStartup)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, m)
		r.send("SELECT pg_sleep(3600)")
		cancelUntilAnswered(t, c.means.Load().server, r)
	})

	t.Run("refused", func(t *testing.T) {
		c := connector(t, primary)
		before := openFDs(t)
		for _, try := range []struct {
			who      Credentials
			database string
			startup  []handoff.Parameter
			code     string
		}{
			{Credentials{lab.User, "wrong"}, lab.Database, nil, "28P01"},
			{Credentials{"nobody", "x"}, lab.Database, nil, "28P01"},
			{login, "nowhere", nil, "3D000"},
			{login, lab.Database, []handoff.Parameter{{Name: "work_mem", Value: "much"}}, "22023"},
			{login, lab.Database, []handoff.Parameter{{Name: "no_such_setting", Value: "1"}}, "42704"},
		} {
			_, err := c.Connect(t.Context(), try.who, try.database, try.startup)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != try.code {
				t.Errorf("%+v: %v; want %s", try, err, try.code)
			}
		}
		if after := openFDs(t); after > before {
			t.Errorf("%d descriptors more than before the attempts", after-before)
		}
	})

	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		c := NewConnector(dial.Server{Host: "127.0.0.1", Port: uint16(port)}, login, lab.Database, attempt)
		if _, err := c.Connect(t.Context(), login, lab.Database, noStartup); err == nil {
			t.Error("connected to a port that nobody listens on")
		}
		if err := c.means.Load().server.Cancel(t.Context(), 1, []byte{1, 2, 3, 4}); err == nil {
			t.Error("a cancel request reached nobody")
		}
	})

	t.Run("environment", func(t *testing.T) {
		for k, v := range map[string]string{
			"PGHOST": "nowhere.invalid", "PGPORT": "1", "PGUSER": "nobody", "PGPASSWORD": "wrong", "PGDATABASE": "nowhere", "PGOPTIONS": "-c work_mem=64kB",
			"PGAPPNAME": "env", "PGTZ": "Asia/Tokyo", "PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/nowhere", "PGSSLCERT": "/nowhere", "PGSSLKEY": "/nowhere",
			"PGSSLCERTMODE": "require", "PGTARGETSESSIONATTRS": "standby", "PGCONNECT_TIMEOUT": "soon", "PGREQUIREAUTH": "none",
			"PGCHANNELBINDING": "require", "PGMINPROTOCOLVERSION": "9.9", "PGMAXPROTOCOLVERSION": "1.0", "PGPASSFILE": "/nowhere", "PGSSLNEGOTIATION": "direct",
		} {
			t.Setenv(k, v)
		}
		c := connector(t, primary)
		m, err := c.Connect(t.Context(), login, lab.Database, noStartup)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, m)
		if got := r.query("SELECT current_setting('work_mem') = '64kB' OR current_setting('application_name') <> '' OR current_setting('TimeZone') = 'Asia/Tokyo'"); got != "f" {
			t.Error("a variable of the router's environment reached the server")
		}
		t.Setenv("PGSERVICE", "somewhere")
		if _, err := c.Connect(t.Context(), login, lab.Database, noStartup); err == nil || !strings.Contains(err.Error(), "PGSERVICE") {
			t.Errorf("PGSERVICE: %v; want a sentence that names it", err)
		}
	})

	t.Run("cancel", func(t *testing.T) {
		c := connector(t, primary)
		m, err := c.Connect(t.Context(), login, lab.Database, noStartup)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, m)
		r.send("SELECT pg_sleep(3600)")
		if err := c.means.Load().server.Cancel(t.Context(), m.PID, []byte{9, 9, 9, 9}); err != nil {
			t.Errorf("with a wrong key: %v; want nothing, as from a server", err)
		}
		cancelUntilAnswered(t, c.means.Load().server, r)
		if got := r.query("SELECT 'alive'"); got != "alive" {
			t.Errorf("after the cancel: %q", got)
		}
	})

	t.Run("stopped", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := connector(t, primary).Connect(ctx, login, lab.Database, noStartup); !errors.Is(err, context.Canceled) {
			t.Errorf("%v; want context.Canceled", err)
		}
	})

	// The last one: it restarts the server.
	t.Run("runs", func(t *testing.T) {
		c := connector(t, primary)
		first, err := c.Connect(t.Context(), login, lab.Database, noStartup)
		if err != nil {
			t.Fatal(err)
		}
		open(t, first)
		again, err := c.ConnectMonitor(t.Context(), "pgpilot-test")
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, again)
		if got := r.query("SHOW application_name"); got != "pgpilot-test" {
			t.Errorf("the monitor's connection is called %q", got)
		}
		if !again.Run.SameRun(first.Run) {
			t.Errorf("%+v and %+v; want one run", first.Run, again.Run)
		}
		if err := primary.KillBackend(t.Context(), int(first.PID)); err != nil {
			t.Fatal(err)
		}
		crashed := reconnect(t, c)
		if crashed.Run.SameRun(first.Run) || crashed.Run.Postmaster != first.Run.Postmaster {
			t.Errorf("after a crash restart %+v; want a later run of the postmaster of %+v", crashed.Run, first.Run)
		}
		if err := primary.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := primary.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		restarted := reconnect(t, c)
		if restarted.Run.Postmaster == crashed.Run.Postmaster {
			t.Errorf("after a restart %+v; want a later postmaster than %+v", restarted.Run, crashed.Run)
		}
	})
}

// cancelUntilAnswered cancels what the connection runs. A request that arrives
// before the statement has begun does nothing, so it is repeated.
func cancelUntilAnswered(t *testing.T, to dial.Server, r *raw) {
	t.Helper()
	type outcome struct{ value, code string }
	answered := make(chan outcome, 1)
	go func() {
		v, code := r.answer()
		answered <- outcome{v, code}
	}()
	for {
		if err := to.Cancel(t.Context(), r.m.PID, r.m.Secret); err != nil {
			t.Fatal(err)
		}
		select {
		case o := <-answered:
			if o.code != "57014" {
				t.Errorf("the canceled statement was answered with %q; want 57014", o.code)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// reconnect connects as soon as the server takes connections again.
func reconnect(t *testing.T, c *Connector) *Made {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		m, err := c.Connect(t.Context(), login, lab.Database, noStartup)
		if err == nil {
			open(t, m)
			return m
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // between two attempts
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

func TestStartupEncoding(t *testing.T) {
	for _, ps := range [][]handoff.Parameter{
		nil, {{Name: "a", Value: ""}}, {{Name: "a", Value: "b=c, d"}, {Name: "options", Value: "-c x=1"}},
	} {
		if got := DecodeStartup(EncodeStartup(ps)); !slices.Equal(got, ps) {
			t.Errorf("%v comes back as %v", ps, got)
		}
	}
	if EncodeStartup([]handoff.Parameter{{Name: "a", Value: "b"}, {Name: "c", Value: ""}}) == EncodeStartup([]handoff.Parameter{{Name: "a", Value: "bc"}, {Name: "", Value: ""}}) {
		t.Error("different parameters look the same")
	}
}

// PostgreSQL compares the names of parameters without regard to case, and the last value of
// one counts (rule 19).
func TestStartupParametersOfOneName(t *testing.T) {
	var ps []handoff.Parameter
	for i, name := range []string{"timezone", "TimeZone", "a", "TIMEZONE", "b", "timeZone"} {
		ps = append(ps, handoff.Parameter{Name: name, Value: strconv.Itoa(i)})
	}
	if got, want := parameters(ps), map[string]string{"timeZone": "5", "a": "2", "b": "4"}; !maps.Equal(got, want) {
		t.Errorf("%v become %v, want %v", ps, got, want)
	}
}

// What is stored for roles is not for every role to read. What a connection begins with is known all the same.
func TestWhatIsStoredMayBeUnreadable(t *testing.T) {
	primary := labtest.Start(t, 0).Primary()
	super, err := pgconn.Connect(t.Context(), primary.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = super.Close(context.Background()) })
	c := connector(t, primary)
	for _, readable := range []bool{true, false} {
		if !readable {
			if _, err := super.Exec(t.Context(), "REVOKE SELECT ON pg_db_role_setting FROM PUBLIC").ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		m, err := c.Connect(t.Context(), login, lab.Database, []handoff.Parameter{{Name: "search_path", Value: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, m)
		if m.Beginnings == nil || m.Beginnings.Isolation != "read committed" || m.Beginnings.SearchPath != "a" {
			t.Errorf("readable %v: it begins with %+v", readable, m.Beginnings)
		}
		if (m.Stored != "") != readable {
			t.Errorf("readable %v: what is stored is %q", readable, m.Stored)
		}
		if got := r.query("SELECT 7"); got != "7" {
			t.Errorf("readable %v: it answers %q", readable, got)
		}
	}
}

// Releases before 14 do not report in_hot_standby: a standby is asked what it is.
func TestAStandbyIsAskedWhatItIs(t *testing.T) {
	cluster := labtest.Start(t, 1)
	for m, standby := range map[*lab.Member]bool{cluster.Primary(): false, cluster.Replica(1): true} {
		c := NewConnector(dial.Server{Host: m.Host, Port: uint16(m.Port)}, login, lab.Database, attempt)
		t.Cleanup(c.Close)
		pg, err := c.dial(t.Context(), login, lab.Database, nil)
		if err != nil {
			t.Fatal(err)
		}
		begins, _, recovery := readBeginnings(t.Context(), pg)
		if begins == nil || (recovery == "t") != standby || (recovery == "f") == standby {
			t.Errorf("%s says %q", m.Name, recovery)
		}
		_ = pg.Close(t.Context())
		made, err := c.Connect(t.Context(), login, lab.Database, noStartup)
		if err != nil {
			t.Fatal(err)
		}
		handoff.CloseFDs([]int{made.FD})
		if made.Standby != standby {
			t.Errorf("%s is taken for a standby: %v", m.Name, made.Standby)
		}
	}
}
