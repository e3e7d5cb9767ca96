package engine

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// onLoop gives what f gives when the loop runs it.
func onLoop[T any](t *testing.T, e *Engine, f func() T) T {
	t.Helper()
	answer := make(chan T, 1)
	if !e.Post(func() { answer <- f() }) {
		t.Fatal("the loop has ended")
	}
	return <-answer
}

// awaitOnLoop waits until what f gives on the loop is true.
func awaitOnLoop(t *testing.T, e *Engine, what string, f func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !onLoop(t, e, f); {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// freeze stops a server process, until the test ends at the latest.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stop the server process %d: %v", pid, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}

// onlyProcess gives the server process of the only connection of a login to the primary.
func onlyProcess(t *testing.T, e *Engine, user, database string) int {
	t.Helper()
	return onLoop(t, e, func() int {
		p := e.pools[poolKey{User: user, Database: database}]
		for s := range p.servers {
			return int(s.pid)
		}
		return 0
	})
}

// A server that may have one connection gets the second one only once it has ended the
// first: it would refuse it. While it takes its time, the other login waits.
func TestAPlaceIsFreeWhenTheServerHasClosed(t *testing.T) {
	cluster := labtest.Start(t, 1)
	primary := cluster.Primary()
	for _, sql := range []string{"CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 1", "CREATE DATABASE other"} {
		executeAs(t, primary.SuperDSN(), sql)
	}
	e := startEngine(t, cluster, func(c *config.Config) {
		c.Users = append(c.Users, config.User{Name: "few", Password: "few"})
		c.Servers.MaxConnections = 1
	})
	first := bringSession(t, e, "first", "few", lab.Database)
	first.untilReady()
	pid := onlyProcess(t, e, "few", lab.Database)
	freeze(t, pid)
	second := bringSession(t, e, "second", "few", "other")
	awaitOnLoop(t, e, "the second login waits for the place of the first", func() bool {
		p := e.pools[poolKey{User: "few", Database: "other"}]
		return p != nil && p.Waiters() == 1 && len(e.parting) == 1 && p.Size() == 0
	})
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	second.untilReady()
	first.exchange(wire.AppendQuery(nil, "VALUES (1)")) // and back again
	second.exchange(wire.AppendQuery(nil, "VALUES (1)"))
	refusals(t, primary, "few", 0)
	if n := onLoop(t, e, func() int { return e.servers[0].total.Count() + len(e.parting) }); n != 1 {
		t.Errorf("%d connections count, want 1", n)
	}
}

// A place that the server does not give back is not waited for without end.
func TestAPlaceThatIsNotGivenBack(t *testing.T) {
	cluster := labtest.Start(t, 1)
	e := startEngine(t, cluster, func(c *config.Config) { c.Servers.MaxConnections = 1 })
	executeAs(t, cluster.Primary().SuperDSN(), "CREATE DATABASE other")
	bringSession(t, e, "first", lab.User, lab.Database).untilReady()
	pid := onlyProcess(t, e, lab.User, lab.Database)
	freeze(t, pid)
	bringSession(t, e, "second", lab.User, "other").untilReady()
}

// When fewer connections are allowed than there are, those that are idle go at once and
// the others when they come back.
func TestConnectionsBeyondANewLimitAreClosed(t *testing.T) {
	cluster := labtest.Start(t, 1)
	e := startEngine(t, cluster)
	var peers []*peer
	for i := range 4 {
		p := joinSession(t, e, fmt.Sprint(i))
		p.exchange(wire.AppendQuery(nil, "BEGIN"))
		p.exchange(wire.AppendQuery(nil, "VALUES (1)"))
		peers = append(peers, p)
	}
	count := func() int { return e.servers[0].total.Count() }
	if n := onLoop(t, e, count); n != 4 {
		t.Fatalf("%d connections, want 4", n)
	}
	peers[3].exchange(wire.AppendQuery(nil, "COMMIT"))
	onLoop(t, e, func() int {
		cfg := *e.cfg
		cfg.Servers.MaxConnections = 2
		if err := e.apply(&cfg); err != nil {
			t.Error(err)
		}
		return 0
	})
	if n := onLoop(t, e, count); n != 3 {
		t.Fatalf("%d connections after the limit was lowered to 2, want the 3 that are lent", n)
	}
	peers[2].exchange(wire.AppendQuery(nil, "COMMIT"))
	peers[1].exchange(wire.AppendQuery(nil, "COMMIT"))
	if n := onLoop(t, e, count); n != 2 {
		t.Fatalf("%d connections when two more have come back, want 2", n)
	}
	peers[0].exchange(wire.AppendQuery(nil, "COMMIT"))
	if n := onLoop(t, e, count); n != 2 {
		t.Fatalf("%d connections when all have come back, want 2", n)
	}
}

// refusals checks how often the server has refused a role for its CONNECTION LIMIT.
func refusals(t *testing.T, m *lab.Member, role string, want int) {
	t.Helper()
	text, err := os.ReadFile(m.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), fmt.Sprintf("too many connections for role %q", role)); n != want {
		t.Errorf("the server has refused %d connections, want %d", n, want)
	}
}
