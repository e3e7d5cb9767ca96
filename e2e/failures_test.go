package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

var writeFailures = flag.Bool("write-failures", false, "write the table of docs/failures.md from this run")

const (
	failuresPage = "../docs/failures.md"
	failuresHead = "| fault | reads | errors | begun | stale | longest | writes | errors | longest |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)

// TestFailures lets one fault after the other happen under the steady load of 16
// clients. Reads see no error as long as some server could answer them, and no stale
// value; writes see errors only from the loss of the primary to the promotion.
func TestFailures(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	proxies, behind := behindProxies(t, cluster)
	r := newRig(t, cluster, func(c *config.Config) {
		behind(c)
		c.Failover.Wait, c.Pool.AcquireTimeout = config.Duration(patience), config.Duration(patience)
	})
	router := r.Service(rundir.Router, 1)
	files := descriptors(t, router)
	old, next, other := cluster.Members()[0], cluster.Members()[1], cluster.Members()[2]
	const clients, rounds = 16, 300
	l := r.newLoad(clients)
	var table strings.Builder
	fault := func(name string, writesFail int, happens func()) {
		t.Helper()
		l.pass(5)
		l.take()
		happens()
		l.pass(5)
		got := l.take()
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %s | %d | %d | %s |\n", name, got.reads, got.failed, got.begun, got.stale, rounded(got.longestRead), got.writes, got.refused, rounded(got.longestWrite))
		t.Logf("%s: %+v", name, got)
		switch {
		case got.failed > 0 || got.stale > 0:
			t.Errorf("%s: %d reads failed, %d were stale", name, got.failed, got.stale)
		case got.refused > writesFail:
			t.Errorf("%s: %d writes failed, want at most %d", name, got.refused, writesFail)
		case got.lost > writesFail:
			t.Errorf("%s: %d sessions were told that a write is lost", name, got.lost)
		case got.reads == 0 || got.writes == 0:
			t.Errorf("%s: %d reads and %d writes are no load", name, got.reads, got.writes)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	fault("none", 0, func() { l.pass(rounds) })
	fault("a replica is killed and started again", 0, func() {
		must(other.Kill(timeout(t)))
		l.pass(rounds)
		must(other.Start(timeout(t)))
		r.awaitReplicas(other)
	})
	fault("a replica neither answers nor closes connections", 0, func() {
		proxies[other.Name].Blackhole()
		l.pass(rounds)
		proxies[other.Name].Heal()
		r.awaitReplicas(other)
	})
	fault("a replica answers 200 ms later", 0, func() {
		proxies[other.Name].Delay(200 * time.Millisecond)
		l.pass(rounds)
		proxies[other.Name].Heal()
	})
	fault("a replica's connections are reset in the middle of an answer", 0, func() {
		for range 10 {
			proxies[other.Name].ResetAfter(100_000)
			l.pass(rounds / 10)
		}
		proxies[other.Name].Heal()
		r.awaitReplicas(other)
	})
	fault("the classifier is killed and started again", 0, func() {
		r.kill(rundir.Classifier, 1)
		l.pass(rounds)
		r.start(rundir.Classifier, 1)
	})
	fault("the lagpoller is killed and started again", 0, func() {
		r.kill(rundir.Lagpoller, 1)
		l.pass(rounds)
		r.start(rundir.Lagpoller, 1)
	})
	// Each client may have had one write on its way when the primary died.
	fault("the primary is killed, a replica is promoted", clients, func() {
		must(r.Lab.WaitCaughtUp(timeout(t)))
		must(old.Kill(timeout(t)))
		must(cluster.Promote(timeout(t), next.Number))
		l.pass(rounds)
	})
	fault("the former primary comes back as it was", 0, func() {
		must(old.Start(timeout(t)))
		r.until("it is told apart", func() bool { return r.metric("pgpilot_backend_superseded", "backend", old.Name) == 1 })
		l.pass(rounds)
	})
	// Its processes end each as it notices, some in the middle of a statement.
	fault("the primary's postmaster is killed (SIGKILL), a replica is promoted", clients, func() {
		must(r.Lab.WaitCaughtUp(timeout(t)))
		pid, ok := next.Running()
		if !ok {
			t.Fatalf("%s does not run", next.Name)
		}
		must(syscall.Kill(pid, syscall.SIGKILL))
		must(cluster.Promote(timeout(t), other.Number))
		l.pass(rounds)
	})
	l.stop()

	// Nothing is left behind.
	r.configure(func(c *config.Config) { c.Pool.IdleTimeout = config.Duration(time.Millisecond) })
	r.until("no session is left", func() bool { return r.metric("pgpilot_sessions_active") == 0 })
	for _, m := range cluster.Members() {
		for _, state := range []string{"idle", "active", "connecting"} {
			r.until(fmt.Sprintf("no %s connection to %s is left", state, m.Name), func() bool {
				return r.metric("pgpilot_pool_connections", "backend", m.Name, "state", state) == 0
			})
		}
	}
	const slack = 4 // of connections that come and go
	r.until(fmt.Sprintf("no more than the %d files of before are open", files), func() bool { return descriptors(t, router) <= files+slack })

	if *writeFailures && !t.Failed() {
		writeTable(t, table.String())
	}
}

// rounded gives a time as a table has it.
func rounded(d time.Duration) string { return d.Round(time.Millisecond).String() }

// writeTable puts the table in the place of the page's.
func writeTable(t testing.TB, rows string) {
	t.Helper()
	b, err := os.ReadFile(failuresPage)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(b), failuresHead)
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	if !ok {
		t.Fatalf("%s has no table with the head\n%s", failuresPage, failuresHead)
	}
	if err := os.WriteFile(failuresPage, []byte(before+failuresHead+rows+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
