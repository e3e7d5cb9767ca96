package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// patience bounds every wait. It is generous: a loaded machine must not fail a test
// that would pass.
const patience = 60 * time.Second

// rig is a stack on a cluster, and the means to hurt it. Its processes end with the
// test.
type rig struct {
	t       testing.TB
	cluster *lab.Cluster
	cfg     *config.Config
	file    string
	procs   map[string]*process
	// port is where clients connect.
	port int
	// rows is how many rows its crews have.
	rows int
}

// newCluster runs a primary and two replicas for the test.
func newCluster(t testing.TB) *lab.Cluster {
	t.Helper()
	return labtest.Start(t, 2)
}

// newRig starts a stack on the cluster and waits until it serves reads from every
// replica. change may alter the configuration before.
func newRig(t testing.TB, cluster *lab.Cluster, change func(*config.Config)) *rig {
	t.Helper()
	r := prepare(t, cluster, change)
	for _, s := range services {
		r.start(s, "1")
	}
	r.awaitReady()
	r.awaitReplicas(cluster.Replicas()...)
	return r
}

// prepare writes the configuration of a stack and starts nothing.
func prepare(t testing.TB, cluster *lab.Cluster, change func(*config.Config)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgpilot-e2e-") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, 3)
	c := config.Default()
	c.RunDir = filepath.Join(dir, "run")
	c.Listen = address(ports[0])
	c.Bus.Listen = address(ports[1])
	c.Observability.MetricsAddr = address(ports[2])
	c.Users = []config.User{{Name: lab.User, Password: lab.Password}}
	c.Pool.MaxSize = 20
	for _, m := range cluster.Members() {
		b := config.Backend{Name: m.Name, Address: net.JoinHostPort(m.Host, strconv.Itoa(m.Port))}
		if m.Number == 0 {
			c.Primary = b
		} else {
			c.Replicas = append(c.Replicas, b)
		}
	}
	if change != nil {
		change(c)
	}
	r := &rig{t: t, cluster: cluster, cfg: c, file: filepath.Join(dir, "pgpilot.json"), procs: map[string]*process{}, port: ports[0]}
	if err := os.Mkdir(c.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.writeConfig()
	t.Cleanup(func() {
		r.close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) writeConfig() {
	r.t.Helper()
	text, err := json.MarshalIndent(r.cfg, "", "  ")
	if err != nil {
		r.t.Fatalf("write the configuration: %v", err)
	}
	if err := os.WriteFile(r.file, text, 0o600); err != nil {
		r.t.Fatalf("write the configuration: %v", err)
	}
}

// close stops every service politely, in reverse order of their start, and shows
// what they said if the test has failed.
func (r *rig) close() {
	for i := range services {
		for _, p := range r.procs {
			if p.service == services[len(services)-1-i] {
				r.end(p)
			}
		}
	}
	for _, p := range r.procs {
		if r.t.Failed() {
			r.t.Logf("the last words of %s:\n%s", p, p.log.tail(12))
		}
	}
}

// end stops a process with SIGTERM, and kills it if that does not help.
func (r *rig) end(p *process) {
	if !p.running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			r.t.Errorf("%s ended with exit code %d after SIGTERM", p, code)
		}
	case <-time.After(patience):
		r.t.Errorf("%s does not end after SIGTERM", p)
		p.signal(syscall.SIGKILL)
	}
}

// start starts a service. It does not wait for it to be ready.
func (r *rig) start(service, id string) *process {
	r.t.Helper()
	p := spawn(r.t, service, id, r.file)
	r.procs[p.String()] = p
	return p
}

// proc gives a service's process.
func (r *rig) proc(service, id string) *process {
	r.t.Helper()
	p := r.procs[service+"."+id]
	if p == nil {
		r.t.Fatalf("%s.%s was never started", service, id)
	}
	return p
}

// kill ends a service with SIGKILL.
func (r *rig) kill(service, id string) {
	r.t.Helper()
	r.proc(service, id).signal(syscall.SIGKILL)
}

// awaitReady waits until every service says that it is ready.
func (r *rig) awaitReady() {
	r.t.Helper()
	var last string
	r.until("the stack is ready", func() bool {
		for _, p := range r.procs {
			if !p.running() {
				r.t.Fatalf("%s ended: %s", p, p.log.tail(5))
			}
		}
		status, body := r.get("/readyz")
		last = body
		return status == http.StatusOK
	}, &last)
}

// awaitReplicas waits until each of these replicas has served a read. Every try is a
// session of its own: in session mode one keeps its replica.
func (r *rig) awaitReplicas(ms ...*lab.Member) {
	r.t.Helper()
	for _, m := range ms {
		r.until(m.Name+" serves reads", func() bool {
			c := r.connect()
			defer c.close()
			return c.port() == m.Port
		}, nil)
	}
}

// until waits for a condition. detail, if given, goes into the failure's message.
func (r *rig) until(what string, ok func() bool, detail *string) {
	r.t.Helper()
	await(r.t, what, ok, detail)
}

func await(t testing.TB, what string, ok func() bool, detail *string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			if detail == nil {
				detail = new(string)
			}
			t.Fatalf("waited in vain: %s. %s", what, *detail)
		}
		<-tick.C
	}
}

// get fetches a page of the listener's relay; the status is 0 while nobody answers.
func (r *rig) get(path string) (status int, body string) {
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + r.cfg.Observability.MetricsAddr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// timeout gives a context for one call that must end.
func timeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// freePorts picks ports below the range that outgoing connections take theirs from,
// so that a port stays free while its service is down.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	const lowest, highest = 20000, 32000
	var held []net.Listener
	var ports []int
	for range 1000 {
		if len(ports) == n {
			break
		}
		l, err := net.Listen("tcp", address(lowest+rand.IntN(highest-lowest)))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range held {
		_ = l.Close()
	}
	if len(ports) < n {
		t.Fatal("found no free ports")
	}
	return ports
}
