package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// program runs one of PostgreSQL's client programs against a port, which it finds in its
// environment.
func program(t testing.TB, port int, stdin, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(timeoutOf(t, wholeRun), name, args...)
	cmd.Env = append(os.Environ(), "PGHOST=127.0.0.1", fmt.Sprintf("PGPORT=%d", port), "PGUSER="+lab.User,
		"PGPASSWORD="+lab.Password, "PGDATABASE="+lab.Database, "PGSSLMODE=disable", "LC_ALL=C")
	cmd.Stdin = strings.NewReader(stdin)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

// psql runs a script that must succeed, and gives what it prints: values only.
func (r *rig) psql(script string) string {
	r.t.Helper()
	out, complaints, err := program(r.t, r.port, script, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-f", "-")
	if err != nil {
		r.t.Fatalf("psql: %v: %s", err, complaints)
	}
	return strings.TrimSpace(out)
}

func TestPsqlReadsFromReplicasAndSeesItsWrites(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)

	r.until("a read of psql runs on a replica", func() bool {
		port, err := strconv.Atoi(r.psql("SELECT inet_server_port()"))
		if err != nil {
			t.Fatal(err)
		}
		return port == cluster.Replica(1).Port || port == cluster.Replica(2).Port
	})

	const rounds = 200
	var script, want strings.Builder
	script.WriteString("CREATE TABLE seen (n int PRIMARY KEY);\n")
	for n := range rounds {
		fmt.Fprintf(&script, "INSERT INTO seen VALUES (%d);\nSELECT n FROM seen WHERE n = %d;\n", n, n)
		fmt.Fprintf(&want, "%d\n", n)
	}
	if got := r.psql(script.String()); got != strings.TrimSpace(want.String()) {
		t.Errorf("rows read after their insert:\n%s", got)
	}

	for n := range rounds / 10 { // a table nobody has seen yet
		if got := r.psql(fmt.Sprintf("CREATE TABLE new_%d (a text);\nINSERT INTO new_%d VALUES ('x');\nSELECT a FROM new_%d;", n, n, n)); got != "x" {
			t.Errorf("table %d shows %q", n, got)
		}
	}
}

func TestLastRouteSaysWhereAndWhy(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()

	c.must("CREATE TABLE here (a int)")
	if got := c.route(); got.Backend != "primary" || got.Role != "primary" || got.Reason != "write" {
		t.Errorf("after a write: %+v", got)
	}
	r.until("the table's reads are back on a replica", func() bool {
		c.must("SELECT a FROM here")
		return c.route().Role == "replica"
	})
	got := c.route()
	if got.Backend != "replica1" && got.Backend != "replica2" || got.Reason != "read" || got.Fence == "" || got.Replayed == "" || got.Waited == "" {
		t.Errorf("after a read: %+v", got)
	}

	header, _, err := program(t, r.port, "", "psql", "-XA", "-F,", "-c", "SHOW pgpilot.last_route")
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(header, "\n"); first != "backend,role,reason,fence,replayed,waited_us" {
		t.Errorf("columns %s", first)
	}
}
