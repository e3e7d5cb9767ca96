package probe

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

const patience = 30 * time.Second

func target(m *lab.Member) Target {
	return Target{Server: dial.Server{Host: m.Host, Port: uint16(m.Port)}, User: lab.User, Password: lab.Password, Database: lab.Database}
}

func login(t *testing.T, target Target) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), target, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func superuser(t *testing.T, m *lab.Member) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), m.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func execute(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestAgainstServers(t *testing.T) {
	c := labtest.Start(t, 1)
	primary, replica := c.Primary(), c.Replica(1)
	super := superuser(t, primary)

	t.Run("observations", func(t *testing.T) {
		p, r := login(t, target(primary)), login(t, target(replica))
		execute(t, super, "SELECT pg_logical_emit_message(true, 'x', 'x')")
		before, err := p.Observe(patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WaitCaughtUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		full, err := r.Observe(patience)
		if err != nil {
			t.Fatal(err)
		}
		quick, err := r.ObserveReplay(patience)
		if err != nil {
			t.Fatal(err)
		}
		if before.Role != bus.Primary || before.Insert == 0 || before.Replay != 0 {
			t.Errorf("primary: %+v", before)
		}
		for _, o := range []Observation{full, quick} {
			if o.Role != bus.Replica || o.Replay < before.Insert || o.Incarnation != full.Incarnation || o.Incarnation.Timeline != before.Incarnation.Timeline ||
				o.Incarnation.SystemID != before.Incarnation.SystemID || o.Answered.Before(o.Asked) {
				t.Errorf("replica: %+v", o)
			}
		}
		if points, err := p.History(before.Incarnation.Timeline, patience); err != nil || len(points) != 0 {
			t.Errorf("history of the first timeline: %v, %v", points, err)
		}
		if _, err := p.History(77, patience); !Refused(err) {
			t.Errorf("history of a timeline that never was: %v", err)
		}
		if _, err := p.Observe(patience); err != nil {
			t.Errorf("after a refusal: %v", err)
		}
	})

	t.Run("the socket's folder is a host", func(t *testing.T) {
		at := target(primary)
		at.Host = primary.SocketDir()
		if o, err := login(t, at).Observe(patience); err != nil || o.Role != bus.Primary {
			t.Errorf("%+v, %v", o, err)
		}
	})

	t.Run("names that are missing", func(t *testing.T) {
		p := login(t, target(primary))
		execute(t, super, `CREATE DATABASE "it's \ here"`)
		missing, err := p.Missing(Names{Databases: []string{lab.Database, "nowhere", `it's \ here`, `it's \ not`}, Roles: []string{lab.User, "no'body"}}, patience)
		if err != nil || !slices.Equal(missing.Databases, []string{"nowhere", `it's \ not`}) || !slices.Equal(missing.Roles, []string{"no'body"}) {
			t.Errorf("%+v, %v", missing, err)
		}
		if missing, err := p.Missing(Names{}, patience); err != nil || missing.Databases != nil || missing.Roles != nil {
			t.Errorf("of none, %+v, %v", missing, err)
		}
		if _, err := p.Observe(patience); err != nil {
			t.Errorf("behind it: %v", err)
		}
	})

	t.Run("a default of serializable does not matter", func(t *testing.T) {
		execute(t, super, "ALTER ROLE pgpilot SET default_transaction_isolation = 'serializable'")
		defer execute(t, super, "ALTER ROLE pgpilot RESET default_transaction_isolation")
		if err := c.WaitCaughtUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := login(t, target(replica)).Observe(patience); err != nil {
			t.Error(err)
		}
	})

	t.Run("refusals say what to do", func(t *testing.T) {
		execute(t, super, "CREATE ROLE nosy LOGIN PASSWORD 'secret' REPLICATION")
		execute(t, super, "CREATE ROLE plain LOGIN PASSWORD 'secret'")
		closed, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		nobody := target(primary)
		nobody.Port = uint16(closed.Addr().(*net.TCPAddr).Port)
		for name, c := range map[string]struct {
			who  Target
			want string
		}{
			"no pg_read_all_stats": {as(target(primary), "nosy", "secret"), `GRANT pg_read_all_stats TO "nosy"`},
			"no REPLICATION":       {as(target(primary), "plain", "secret"), `ALTER ROLE "plain" REPLICATION`},
			"wrong password":       {as(target(primary), lab.User, "wrong"), "check its password"},
			"nobody there":         {nobody, "connection refused"},
		} {
			conn, err := Dial(t.Context(), c.who, patience)
			if err == nil {
				conn.Close()
				t.Errorf("%s: connected", name)
				continue
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || Full(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		execute(t, super, "GRANT pg_read_all_stats TO nosy")
		login(t, as(target(primary), "nosy", "secret"))
	})

	t.Run("the environment does not change who is asked", func(t *testing.T) {
		t.Setenv("PGHOST", "203.0.113.1")
		t.Setenv("PGOPTIONS", "-c default_transaction_isolation=serializable")
		t.Setenv("PGTARGETSESSIONATTRS", "read-write")
		if o, err := login(t, target(replica)).Observe(patience); err != nil || o.Role != bus.Replica {
			t.Errorf("%+v, %v", o, err)
		}
	})

	t.Run("a promotion under a kept connection", func(t *testing.T) {
		r := login(t, target(replica))
		before, err := r.Observe(patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := primary.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Promote(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		// A burst must not take the end of replay on the old timeline for news of the new one.
		if o, err := r.ObserveReplay(patience); !errors.Is(err, ErrTurning) {
			t.Errorf("in a burst: %+v, %v", o, err)
		}
		after, err := r.Observe(patience)
		if err != nil {
			t.Fatal(err)
		}
		want := before.Incarnation
		want.Timeline++
		if after.Role != bus.Primary || after.Incarnation != want || after.Insert < before.Replay {
			t.Errorf("before %+v\nafter %+v", before, after)
		}
		points, err := r.History(after.Incarnation.Timeline, patience)
		if err != nil || len(points) != 1 || points[0].Timeline != before.Incarnation.Timeline || points[0].LSN < before.Replay || points[0].LSN > after.Insert {
			t.Errorf("history %v, %v", points, err)
		}
	})
}

func as(t Target, user, password string) Target {
	t.User, t.Password = user, password
	return t
}

// A server that accepts and then says nothing holds a poll up no longer than its timeout.
func TestASilentServerIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), Target{Server: dial.Server{Host: host, Port: uint16(n)}, User: "u", Password: "p", Database: "d"}, 50*time.Millisecond)
	if err == nil {
		c.Close()
		t.Fatal("connected")
	}
}

func TestReadStatus(t *testing.T) {
	row := func(cols ...string) [][]byte {
		out := make([][]byte, len(cols))
		for i, c := range cols {
			if c != "" {
				out[i] = []byte(c)
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		row  [][]byte
		want Observation
		bad  bool
	}{
		"standby":                  {row("t", "0/20", "0/30", "", "", "", "t"), Observation{Role: bus.Replica, Replay: 0x20, Receive: 0x30, Receiving: true}, false},
		"standby without a stream": {row("t", "0/20", "", "", "", "", "f"), Observation{Role: bus.Replica, Replay: 0x20}, false},
		"primary that was a standby": {row("f", "0/20", "0/30", "0/50", "0/40", "0000000A", "f"),
			Observation{Role: bus.Primary, Insert: 0x50, Flush: 0x40, Incarnation: lsn.Incarnation{Timeline: 10}}, false},
		"promoted while asked": {row("t", "0/20", "0/30", "0/50", "0/40", "00000002", "f"), Observation{Role: bus.Replica, Replay: 0x20, Receive: 0x30}, false},
		"too few columns":      {row("t"), Observation{}, true},
		"broken position":      {row("t", "20", "", "", "", "", "t"), Observation{}, true},
		"broken WAL file name": {row("f", "", "", "0/50", "0/40", "xyz", "f"), Observation{}, true},
	} {
		var got Observation
		err := readStatus(c.row, &got)
		if (err != nil) != c.bad || !c.bad && got != c.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
