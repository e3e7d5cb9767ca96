package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// client is one program and what is expected of it.
type client struct {
	name string
	// prepare makes it ready to run and gives its command line, and variables for its
	// environment.
	prepare func(t *testing.T) (argv, env []string)
	// steps are what it has to print, in this order.
	steps []string
	// reads is how many statements, or batches of them, must have run on replicas.
	reads int
}

// everywhere are the steps of every driver.
var everywhere = []string{
	"connect", "reads", "own values", "transaction", "savepoint", "batch", "cancel", "copy", "listen", "temporary table", "search_path",
}

// preparedReads is how many reads a program makes in the step "reads". It is far more than
// all its other reads, so that those can not stand in for these.
const preparedReads = 500

func clients() []client {
	return []client{
		{name: "pgx", prepare: goProgram("pgx"), steps: inModes(everywhere, "cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"), reads: 5 * preparedReads},
		{name: "lib-pq", prepare: goProgram("pq"), steps: everywhere, reads: preparedReads},
		{name: "psycopg3", prepare: python("psycopg", "psycopg-3/client.py"), steps: inModes(everywhere, "plain", "pipeline"), reads: 3 * preparedReads},
		{name: "psycopg2", prepare: python("psycopg2", "psycopg-2/client.py"), steps: everywhere, reads: preparedReads},
		{name: "node-postgres", prepare: node, steps: everywhere, reads: preparedReads},
		{name: "jdbc", prepare: jdbc, steps: inModes(append(slices.Clone(everywhere), "cursor", "closed statements"), "autosave never", "autosave always"), reads: 2 * preparedReads},
		{name: "psql", prepare: psql, steps: everywhere, reads: preparedReads},
		{name: "pgbench", prepare: pgbench, steps: []string{"init", "simple", "extended", "prepared"}, reads: 3 * preparedReads},
	}
}

// inModes are the steps for a program that does all of them once per mode.
func inModes(steps []string, modes ...string) []string {
	var all []string
	for _, mode := range modes {
		for _, step := range steps {
			all = append(all, step+" "+mode)
		}
	}
	return all
}

func TestClients(t *testing.T) {
	cluster := labtest.Start(t, 2)
	all := stages(t, cluster)
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			argv, env := c.prepare(t)
			for _, s := range all {
				ok := t.Run(s.name, func(t *testing.T) { play(t, cluster, s, c, argv, env) })
				if !ok && s.pilot == nil {
					t.Fatal("the program does not work without pgpilot either")
				}
			}
		})
	}
}

// play runs a program on a stage.
func play(t *testing.T, cluster *lab.Cluster, s stage, c client, argv, env []string) {
	before := 0
	if s.pilot != nil {
		before = s.replicaReads(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience) // many steps
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PGHOST=127.0.0.1", fmt.Sprintf("PGPORT=%d", s.port), "PGUSER="+lab.User,
		"PGPASSWORD="+lab.Password, "PGDATABASE="+lab.Database, "LC_ALL=C.UTF-8")
	cmd.Env = append(append(cmd.Env, s.secure...), env...)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	// Children may hold the pipes of a program that was killed for its time.
	cmd.WaitDelay = patience / 10
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s%s", c.name, err, out.String(), complaints.String())
	}
	var want strings.Builder
	for _, step := range c.steps {
		want.WriteString("ok " + step + "\n")
	}
	if !t.Failed() && out.String() != want.String() {
		t.Errorf("%s prints\n%swant\n%s", c.name, out.String(), want.String())
	}
	if s.pilot == nil {
		return
	}
	if got := s.replicaReads(t) - before; got < c.reads {
		t.Errorf("%d statements ran on replicas, want at least %d; of all runs so far:\n%s", got, c.reads, s.decisions(t))
	}
	s.settled(t, cluster)
}

// folder of this package, in which go test runs.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// missing fails a test for want of software.
func missing(t *testing.T, what string) {
	t.Helper()
	t.Fatalf("%s is missing: run deploy/local/install-deps.sh --test", what)
}

// program finds a program on the path.
func program(t *testing.T, name, what string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, what)
	}
	return path
}

func goProgram(name string) func(t *testing.T) (argv, env []string) {
	return func(t *testing.T) (argv, env []string) {
		t.Helper()
		bin := filepath.Join(t.TempDir(), name)
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, "./"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the program: %v\n%s", err, out)
		}
		return []string{bin}, nil
	}
}

// python runs a script with the first Python that has its module: a Python of the
// user's own comes before the distribution's on the path, without the distribution's modules.
func python(module, script string) func(t *testing.T) (argv, env []string) {
	return func(t *testing.T) (argv, env []string) {
		t.Helper()
		for _, python := range []string{"python3", "/usr/bin/python3"} {
			if exec.CommandContext(t.Context(), python, "-c", "import "+module).Run() == nil {
				return []string{python, script}, nil
			}
		}
		missing(t, "the Python module "+module)
		return nil, nil
	}
}

func node(t *testing.T) (argv, env []string) {
	t.Helper()
	program := program(t, "node", "Node.js")
	modules := filepath.Join(folder(t), "..", "..", "bin", "clients", "node", "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "pg")); err != nil {
		missing(t, "the npm package pg")
	}
	return []string{program, "node/client.js"}, []string{"NODE_PATH=" + modules}
}

func jdbc(t *testing.T) (argv, env []string) {
	t.Helper()
	const driver = "/usr/share/java/postgresql.jar" // where Debian's package has it
	if _, err := os.Stat(driver); err != nil {
		missing(t, "PostgreSQL's JDBC driver")
	}
	classes := t.TempDir()
	javac := exec.CommandContext(t.Context(), program(t, "javac", "the Java compiler"), "-Xlint:all", "-Werror", "-cp", driver, "-d", classes, "jdbc/Client.java")
	if out, err := javac.CombinedOutput(); err != nil {
		t.Fatalf("compile the program: %v\n%s", err, out)
	}
	return []string{program(t, "java", "Java"), "-XX:TieredStopAtLevel=1", "-cp", classes + ":" + driver, "Client"}, nil
}

func psql(t *testing.T) (argv, env []string) {
	t.Helper()
	program(t, "psql", "psql")
	return []string{"bash", "psql/client.sh"}, nil
}

func pgbench(t *testing.T) (argv, env []string) {
	t.Helper()
	program(t, "pgbench", "pgbench")
	return []string{"bash", "psql/pgbench.sh"}, nil
}
