package e2e

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

var (
	processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	failed    = regexp.MustCompile(`number of failed transactions: (\d+) `)
)

// pgbench runs a load of 16 clients in which nothing may fail, and gives how many
// transactions it did: a number of them, not a time, since on a busy machine the
// logins alone may outlast any.
func (r *rig) pgbench(t testing.TB, args ...string) int {
	t.Helper()
	out, complaints, err := program(t, r.port, "", "pgbench", append([]string{"-n", "-c", "16", "-j", "2", "-t", "100"}, args...)...)
	if err != nil {
		t.Fatalf("pgbench %v: %v\n%s%s", args, err, out, complaints)
	}
	number := func(what *regexp.Regexp) int {
		m := what.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("pgbench %v prints no %s:\n%s", args, what, out)
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := number(failed); n != 0 {
		t.Errorf("pgbench %v: %d failed transactions", args, n)
	}
	n := number(processed)
	if n == 0 {
		t.Errorf("pgbench %v did nothing", args)
	}
	t.Logf("pgbench %v: %d transactions", args, n)
	return n
}

// served counts the transactions a server has run in the test's database. The
// backends of the last run have to end for it: they report with a delay while they
// live.
func served(t testing.TB, m *lab.Member) int {
	t.Helper()
	c := direct(t, m)
	defer c.close()
	c.must("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'pgbench'")
	n, err := strconv.Atoi(c.one("SELECT xact_commit FROM pg_stat_database WHERE datname = 'pgpilot'"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPgbench(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	if out, complaints, err := program(t, newRig(t, cluster, nil).port, "", "pgbench", "-i", "-q", "-s", "4"); err != nil {
		t.Fatalf("pgbench -i: %v\n%s%s", err, out, complaints)
	}
	if err := cluster.WaitCaughtUp(timeout(t)); err != nil {
		t.Fatal(err)
	}
	for _, m := range cluster.Members() {
		if got := direct(t, m).one("SELECT count(*) FROM pgbench_accounts"); got != "400000" {
			t.Errorf("%s has %s accounts", m.Name, got)
		}
	}
	for _, mode := range []string{config.Session, config.Transaction} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, cluster, func(c *config.Config) {
				c.Pool.Mode = mode
				c.Routing.SlowStart = 0 // a replica that was found a moment later is to get as much
			})
			t.Run("reads spread over both replicas", func(t *testing.T) {
				// Sixteen sessions that ask for the first time at once may go to the primary.
				r.readsOnReplica(r.connect(), "SELECT abalance FROM pgbench_accounts WHERE aid = 1;")
				var before, after []int
				for _, m := range cluster.Replicas() {
					before = append(before, served(t, m))
				}
				reads := r.metric("pgpilot_routing_decisions_total", "target", "replica", "reason", "read")
				n := r.pgbench(t, "-S", "-M", "simple", "-t", "1000")
				for _, m := range cluster.Replicas() {
					after = append(after, served(t, m))
				}
				if got := r.metric("pgpilot_routing_decisions_total", "target", "replica", "reason", "read") - reads; int(got) < n*95/100 {
					t.Errorf("%v of %d reads ran on replicas", got, n)
				}
				first, second := after[0]-before[0], after[1]-before[1]
				if first+second < n*95/100 {
					t.Errorf("the replicas count %d of %d transactions", first+second, n)
				}
				share := 100 * first / (first + second)
				t.Logf("%d on replica1, %d on replica2", first, second)
				if share < 20 || share > 80 {
					t.Errorf("replica1 served %d%% of the reads", share)
				}
			})
			for _, load := range [][]string{
				{"-N", "-M", "simple"}, {"-b", "tpcb-like", "-M", "simple"},
				{"-S", "-M", "extended"}, {"-b", "tpcb-like", "-M", "extended"},
				{"-S", "-M", "prepared"}, {"-b", "tpcb-like", "-M", "prepared"},
			} {
				r.pgbench(t, load...)
			}
			r.caughtUp()
			r.pgbench(t, "-S", "-M", "simple") // the prepared runs have left nothing in the way
		})
	}
}
