package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

func TestParse(t *testing.T) {
	tests := []struct {
		args, wantErr string
	}{
		{args: "up"},
		{args: "-dir x -config y -routers 2 up"},
		{args: "", wantErr: "which command"},
		{args: "up -dir x", wantErr: "flags come before it"},
		{args: "-routers 0 up", wantErr: "at least one router"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			_, err := parse(strings.Fields(test.args), &bytes.Buffer{})
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}
		})
	}
	if err := run(t.Context(), []string{"stop"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `unknown command "stop"`) {
		t.Errorf("an unknown command: %v", err)
	}
}

func TestDevelopmentConfiguration(t *testing.T) {
	for _, dir := range []string{"/home/me/pgpilot/.run", "/home/me/" + strings.Repeat("long/", 20) + ".run"} {
		cmd := command{dir: dir, labPort: 55432}
		cfg, err := config.Parse(cmd.development(), "generated")
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Listen != "localhost:6432" || cfg.Observability.MetricsAddr != "localhost:9090" || cfg.Bus.Listen != "localhost:4222" ||
			cfg.ListenUnix != "" || cfg.Primary.Address != "127.0.0.1:55432" || len(cfg.Replicas) != 2 || cfg.Replicas[1].Address != "127.0.0.1:55434" {
			t.Errorf("configuration %v", cfg)
		}
		if len(cfg.RunDir) > maxRunDir {
			t.Errorf("run directory %s is too long", cfg.RunDir)
		}
	}
}

// freeBase finds the first of some free ports in a row, below those that outgoing connections
// and labs on free ports take.
func freeBase(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		first, free := 10000+rand.IntN(4990), 0
		for port := first; port < first+n; port++ {
			if l, err := net.Listen("tcp", "localhost:"+strconv.Itoa(port)); err == nil {
				_ = l.Close()
				free++
			}
		}
		if free == n {
			return first
		}
	}
	t.Fatalf("no %d free ports in a row", n)
	return 0
}

// development is a folder with a configuration as generated but for its ports.
type development struct {
	t     *testing.T
	dir   string
	base  int // of the lab's ports; the services' follow
	flags []string
}

func newDevelopment(t *testing.T) *development {
	t.Helper()
	parent, err := os.MkdirTemp("", "dv") // short: socket paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	d := &development{t: t, dir: filepath.Join(parent, "run"), base: freeBase(t, replicas+4)}
	d.flags = []string{"-dir", d.dir, "-bin", stacktest.Programs(t), "-lab-port", strconv.Itoa(d.base)}
	text := string(command{dir: d.dir, labPort: d.base}.development())
	for i, port := range []string{"6432", "9090", "4222"} {
		text = strings.Replace(text, "localhost:"+port, "localhost:"+strconv.Itoa(d.base+replicas+1+i), 1)
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "pgpilot.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(context.Background(), append(d.flags, "down"), &bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *development) run(name string) (string, error) {
	d.t.Helper()
	var out bytes.Buffer
	err := run(d.t.Context(), append(d.flags, name), &out)
	return out.String(), err
}

func (d *development) must(name string) string {
	d.t.Helper()
	out, err := d.run(name)
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return out
}

func (d *development) pids() map[string]int {
	d.t.Helper()
	s, err := stack.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, p := range s.Processes() {
		pids[p.Name()] = p.Pid()
	}
	return pids
}

func TestUpStatusDown(t *testing.T) {
	d := newDevelopment(t)
	if out := d.must("status"); !strings.Contains(out, "nothing is running") {
		t.Errorf("status before up says %s", out)
	}
	out := d.must("up")
	for _, want := range []string{
		fmt.Sprintf(`psql "host=localhost port=%d dbname=pgpilot user=pgpilot"   (password pgpilot)`, d.base+replicas+1),
		"make demo", "make down", d.dir + "/logs",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in what up says:\n%s", want, out)
		}
	}
	first := d.pids()
	if len(first) != 4 {
		t.Errorf("processes %v", first)
	}

	s, err := stack.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Service(rundir.Classifier, 1).Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err = d.run("status")
	if err == nil || !strings.Contains(err.Error(), "not ready: classifier.1") {
		t.Errorf("status with a dead classifier: %v", err)
	}
	if !strings.Contains(out, "stopped") || !strings.Contains(out, "replica2") {
		t.Errorf("status says\n%s", out)
	}

	d.must("up")
	for name, pid := range d.pids() {
		if killed := name == "classifier.1"; (pid != first[name]) != killed || pid == 0 {
			t.Errorf("%s has pid %d after the second up, had %d", name, pid, first[name])
		}
	}
	d.must("status")
	d.flags = slices.DeleteFunc(d.flags, func(f string) bool { return f == "-lab-port" || f == strconv.Itoa(d.base) })
	d.must("up") // need not be told the port again, nor make demo
	replicaWithoutPort(t, d)
	nowhere := slices.Concat(d.flags, []string{"-config", "nosuch.json", "up"})
	if err := run(t.Context(), nowhere, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "nosuch.json does not exist: name another file with make up CONFIG=file") {
		t.Errorf("up with a configuration that is not there: %v", err)
	}
	file := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := slices.Concat(d.flags, []string{"-config", file, "up"})
	if err := run(t.Context(), other, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "runs with the configuration "+d.dir+"/pgpilot.json, not ") {
		t.Errorf("up with another configuration: %v", err)
	}

	failOver(t, d)

	// The edited configuration is all that stays.
	if out := d.must("down"); !strings.Contains(out, "kept "+d.dir+"/pgpilot.json") {
		t.Errorf("down says %s", out)
	}
	left, err := os.ReadDir(d.dir)
	if err != nil || len(left) != 1 || left[0].Name() != "pgpilot.json" {
		t.Errorf("down left %v, %v", left, err)
	}
	for port := d.base; port < d.base+replicas+4; port++ {
		if err := stack.CheckAddress(t.Context(), "localhost:"+strconv.Itoa(port)); err != nil {
			t.Error(err)
		}
	}
	if out := d.must("down"); !strings.Contains(out, "nothing is running") {
		t.Errorf("down without anything says %s", out)
	}
}

// replicaWithoutPort has another program take the port of a replica that does not run. The
// ports of a cluster stay as they are, so up says what else to do.
func replicaWithoutPort(t *testing.T, d *development) {
	t.Helper()
	c, err := lab.Open(filepath.Join(d.dir, "lab"))
	if err != nil {
		t.Fatal(err)
	}
	replica := c.Replica(2)
	if err := replica.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(replica.Port))
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.run("up")
	if want := fmt.Sprintf("port %d is taken by stack.test (pid %d): stop it, or remove the local cluster with make down and give the next one other ports with make up LAB_PORT=n",
		replica.Port, os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%q is not in: %v", want, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d.must("up")
}

// failOver leaves the stack with a former primary, which up neither starts nor tolerates.
func failOver(t *testing.T, d *development) {
	t.Helper()
	c, err := lab.Open(filepath.Join(d.dir, "lab"))
	if err != nil {
		t.Fatal(err)
	}
	old := c.Primary()
	if err := c.WaitCaughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := old.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Promote(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if out := d.must("up"); !strings.Contains(out, "not started, since replica1 was promoted in its place: primary") {
		t.Errorf("up after a failover says\n%s", out)
	}
	if pid, running := old.Running(); running {
		t.Errorf("up started the former primary, pid %d", pid)
	}
	if err := old.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.run("up"); err == nil || !strings.Contains(err.Error(), `there is a second primary: primary ("lab kill 0" stops it)`) {
		t.Errorf("up with two primaries: %v", err)
	}
}

func TestUpNamesServersThatCannotBeUsed(t *testing.T) {
	d := newDevelopment(t)
	real := filepath.Join(t.TempDir(), "real.json")
	if err := os.Rename(filepath.Join(d.dir, "pgpilot.json"), real); err != nil {
		t.Fatal(err)
	}
	d.flags = append(d.flags, "-config", real)
	for range 2 { // also when everything runs already
		_, err := d.run("up")
		if err == nil {
			t.Fatal("up succeeded without a server")
		}
		for n, name := range []string{"primary", "replica1", "replica2"} {
			want := fmt.Sprintf("the server %s (127.0.0.1:%d) cannot be used: ", name, d.base+n)
			if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
	}
	for name, pid := range d.pids() {
		if pid == 0 {
			t.Errorf("%s does not run", name)
		}
	}
}

func TestUpNamesWhoHasAPort(t *testing.T) {
	d := newDevelopment(t)
	for _, offset := range []int{1, replicas + 1} {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(d.base+offset))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	_, err := d.run("up")
	if err == nil {
		t.Fatal("it started")
	}
	for _, offset := range []int{1, replicas + 1} {
		if want := fmt.Sprintf("port %d is taken by stack.test (pid %d): stop it", d.base+offset, os.Getpid()); !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if want := "other ports with make up LAB_PORT=n (bin/stack -lab-port n); of those below 32768"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q is not in: %v", want, err)
	}
	if left, err := os.ReadDir(d.dir); err != nil || len(left) != 1 {
		t.Errorf("the failed up left %v, %v", left, err)
	}
}

func TestGeneratedConfigurationGoesWithDown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var out bytes.Buffer
	cmd := command{dir: dir, labPort: 55432, out: &out}
	if err := cmd.writeDevelopment(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("down left %s: %v", dir, err)
	}
}

// When a port is taken, up leaves the configuration behind that it generated: it must not
// stand in the way of another up with other ports.
func TestGeneratedConfigurationFollowsThePorts(t *testing.T) {
	var out bytes.Buffer
	first := command{dir: filepath.Join(t.TempDir(), "run"), labPort: 55432, out: &out}
	other := first
	other.labPort = 15432
	holds := func(want []byte) {
		t.Helper()
		if got, err := os.ReadFile(first.developmentFile()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the configuration is\n%s(%v), want\n%s", got, err, want)
		}
	}
	for _, cmd := range []command{first, other} {
		if err := cmd.writeDevelopment(); err != nil {
			t.Fatal(err)
		}
		holds(cmd.development())
	}
	edited := bytes.Replace(other.development(), []byte("localhost:6432"), []byte("localhost:16432"), 1)
	if err := os.WriteFile(first.developmentFile(), edited, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.writeDevelopment(); err != nil {
		t.Fatal(err)
	}
	holds(edited)
	told := command{dir: first.dir}
	if told.chooseLabPort(); told.labPort != other.labPort {
		t.Errorf("the cluster would have port %d, which the edited configuration does not name", told.labPort)
	}
	if err := os.WriteFile(first.developmentFile(), other.development(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.down(t.Context()); err != nil { // need not be told the port
		t.Fatal(err)
	}
	if _, err := os.Stat(first.dir); !os.IsNotExist(err) {
		t.Errorf("down left %s: %v", first.dir, err)
	}
}
