package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// patience bounds every wait. It is generous: a loaded machine must not fail a test
// that would pass.
const patience = 60 * time.Second

// wholeRun bounds what a client program does from its start to its end: many things, of
// which each may take its time.
const wholeRun = 5 * patience

// verdictTime is classify.timeout unless a test sets its own. A statement whose verdict is
// late is taken for a write, which may even bind its session to the primary: a busy machine
// must not decide where statements run. Half of it is how long a classifier may wait for the
// catalog of a server that is frozen, so it is well below patience.
const verdictTime = 20 * time.Second

// rig is a stack on a cluster, and the means to hurt it.
type rig struct {
	*stacktest.Pgpilot
	t   testing.TB
	cfg *config.Config
	// changed is what configure has made of it.
	changed *config.Config
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
	return rigOf(t, stacktest.Options{Lab: cluster}, change)
}

func rigOf(t testing.TB, o stacktest.Options, change func(*config.Config)) *rig {
	t.Helper()
	o.Configure = func(c *config.Config) {
		c.Pool.MaxSize = 20
		c.Classify.Timeout = config.Duration(verdictTime)
		if change != nil {
			change(c)
		}
	}
	r := &rig{Pgpilot: stacktest.Start(t, o), t: t}
	r.cfg = r.Config()
	_, port, err := net.SplitHostPort(r.cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if r.port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	return r
}

// narrow gives the pools so few connections that sessions queue for them. On a loaded
// machine they queue for long, and none may keep a connection for want of a verdict.
func narrow(size int) func(*config.Config) {
	return func(c *config.Config) {
		c.Pool.MaxSize, c.Pool.AcquireTimeout = size, config.Duration(patience)
		c.Classify.Timeout = config.Duration(patience)
	}
}

// patientDrain gives sessions all the time they need to leave a service that stops.
func patientDrain(c *config.Config) { c.Drain.Timeout = config.Duration(patience) }

// start starts a service that was killed, and waits until it is ready.
func (r *rig) start(service string, number int) {
	r.t.Helper()
	if err := r.Service(service, number).Start(timeout(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

// kill ends a service with SIGKILL.
func (r *rig) kill(service string, number int) {
	r.t.Helper()
	if err := r.Service(service, number).Kill(timeout(r.t)); err != nil {
		r.t.Fatal(err)
	}
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
		})
	}
}

// caughtUp waits until the replicas have replayed all that has been written.
func (r *rig) caughtUp() {
	r.t.Helper()
	if err := r.Lab.WaitCaughtUp(timeout(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

// readsOnReplica waits until the session's read runs on a replica: until then what it
// names may not be known yet to the classifier, and it counts as a write.
func (r *rig) readsOnReplica(c *client, sql string) {
	r.t.Helper()
	r.until(sql+" runs on a replica", func() bool {
		c.must(sql)
		return c.route().Role == "replica"
	})
}

// until waits for a condition.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	await(r.t, what, ok)
}

// advance waits until a counter has reached a goal. The patience is for each step: a loaded
// machine may take its time for many, as long as it goes on.
func (r *rig) advance(what string, counter func() int64, goal int64) {
	r.t.Helper()
	for at := counter(); at < goal; at = counter() {
		r.until(what, func() bool { return counter() > at })
	}
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}

// get fetches a page of the listener's relay.
func (r *rig) get(path string) (status int, body string) {
	r.t.Helper()
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + r.cfg.Observability.MetricsAddr + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// timeout gives a context for one call that must end.
func timeout(t testing.TB) context.Context {
	t.Helper()
	return timeoutOf(t, patience)
}

func timeoutOf(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
