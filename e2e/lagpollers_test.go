package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/faultproxy"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// mustBeWhole says what a load may never meet, unless something that it needs itself
// was lost.
func (l *load) mustBeWhole(what string) {
	l.rig.t.Helper()
	t := l.take()
	if t.failed+t.begun+t.stale+t.refused != 0 {
		l.rig.t.Errorf("%s: %d reads failed, %d broke off, %d were stale, %d writes failed: %q", what, t.failed, t.begun, t.stale, t.refused, t.notes)
	}
	if t.reads == 0 || t.writes == 0 {
		l.rig.t.Errorf("%s: %d reads and %d writes", what, t.reads, t.writes)
	}
}

// hearers listens at the bus's address and keeps what each lagpoller says.
type hearers struct {
	r  *rig
	nc *nats.Conn

	mu   sync.Mutex
	last map[string]map[string]bus.Lag // by publisher and backend; guarded by mu
}

func (r *rig) hearAll() *hearers {
	r.t.Helper()
	h := &hearers{r: r, last: map[string]map[string]bus.Lag{}}
	nc, err := nats.Connect("nats://"+r.cfg.Bus.Listen, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(nc.Close)
	if _, err := bus.Subscribe(nc, bus.SubjectLag+"*", nil, func(l bus.Lag) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.last[l.Publisher] == nil {
			h.last[l.Publisher] = map[string]bus.Lag{}
		}
		h.last[l.Publisher][l.Backend] = l
	}); err != nil {
		r.t.Fatal(err)
	}
	if err := nc.FlushTimeout(patience); err != nil {
		r.t.Fatal(err)
	}
	h.nc = nc
	return h
}

// of gives what a lagpoller said last of a server.
func (h *hearers) of(id, backend string) (bus.Lag, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for publisher, words := range h.last {
		if strings.HasPrefix(publisher, id+"@") {
			l, ok := words[backend]
			return l, ok
		}
	}
	return bus.Lag{}, false
}

// all waits until each of the lagpollers has said something of every server since now.
func (h *hearers) all(ids ...string) {
	h.r.t.Helper()
	h.mu.Lock()
	h.last = map[string]map[string]bus.Lag{}
	h.mu.Unlock()
	for _, id := range ids {
		for _, m := range h.r.Lab.Members() {
			h.r.until(fmt.Sprintf("lagpoller %s is heard of %s", id, m.Name), func() bool { _, ok := h.of(id, m.Name); return ok })
		}
	}
}

// Whichever of two lagpollers is lost, and however, clients do not notice, and everybody
// hears the other one.
func TestNobodyNoticesTheLossOfALagpoller(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := rigOf(t, stacktest.Options{Lab: cluster, Lagpollers: 2, Routers: 2, Classifiers: 2}, func(c *config.Config) {
		c.Health.Interval = config.Duration(200 * time.Millisecond)
	})
	l := r.newLoad(8)
	h := r.hearAll()
	h.all("1", "2")
	l.take()
	others := map[int]string{1: "2", 2: "1"}
	for name, lose := range map[string]func(n int) (back func()){
		"ended": func(n int) func() {
			if err := r.Service(rundir.Lagpoller, n).Terminate(timeout(t)); err != nil {
				t.Fatal(err)
			}
			return func() { r.start(rundir.Lagpoller, n) }
		},
		"killed": func(n int) func() {
			r.kill(rundir.Lagpoller, n)
			return func() { r.start(rundir.Lagpoller, n) }
		},
		"hung": func(n int) func() {
			p := r.Service(rundir.Lagpoller, n)
			if err := p.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			resume := func() { _ = p.Signal(syscall.SIGCONT) }
			t.Cleanup(resume) // or it could not be told to end
			return resume
		},
	} {
		for n := 1; n <= 2; n++ {
			what := fmt.Sprintf("lagpoller %d %s", n, name)
			back := lose(n)
			l.pass(100)
			r.connected(what, 4)
			r.fencedOnReplicas(what)
			l.mustBeWhole(what)
			back()
			l.pass(50)
			l.mustBeWhole(what + " and back")
			if name != "hung" { // an operator's client may hang with it; others do not
				h.all("1", "2")
			} else {
				r.hearAll().all(others[n])
			}
		}
	}
	r.hearAll().all("1", "2")
	r.services(map[string]int{"pgpilot-lagpoller": 2, "pgpilot-classifier": 2})
}

// connected waits until routers and classifiers are connected to a bus.
func (r *rig) connected(what string, n float64) {
	r.t.Helper()
	r.until(what+": services find another", func() bool {
		return r.metric("pgpilot_bus_connected", "service", "router")+r.metric("pgpilot_bus_connected", "service", "classifier") == n
	})
}

// fencedOnReplicas waits until a session that writes reads on each replica: news
// of them comes in.
func (r *rig) fencedOnReplicas(what string) {
	r.t.Helper()
	c := r.connect()
	defer c.close()
	for _, m := range r.Lab.Replicas() {
		r.until(fmt.Sprintf("%s: %s serves a fenced session", what, m.Name), func() bool {
			c.must("UPDATE load SET v = v WHERE row = -1")
			for range 50 {
				if c.port() == m.Port {
					return true
				}
			}
			return false
		})
	}
}

// services asks as `nats micro ls` and `nats micro stats` do, and waits until so many
// instances of each service answer.
func (r *rig) services(want map[string]int) {
	r.t.Helper()
	nc, err := nats.Connect("nats://"+r.cfg.Bus.Listen, nats.Timeout(patience))
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request(bus.SubjectTopologySnapshot, nil, patience); err != nil {
		r.t.Fatal(err)
	}
	r.until(fmt.Sprintf("they are listed: %v", want), func() bool {
		inbox := nats.NewInbox()
		answers, err := nc.SubscribeSync(inbox)
		if err != nil {
			r.t.Fatal(err)
		}
		defer func() { _ = answers.Unsubscribe() }()
		if err := nc.PublishRequest("$SRV.STATS", inbox, nil); err != nil {
			r.t.Fatal(err)
		}
		got, requests := map[string]int{}, 0
		for {
			m, err := answers.NextMsg(500 * time.Millisecond)
			if errors.Is(err, nats.ErrTimeout) {
				break
			}
			if err != nil {
				r.t.Fatal(err)
			}
			var stats struct {
				Name, Version string
				Metadata      map[string]string
				Endpoints     []struct {
					Subject     string
					NumRequests int `json:"num_requests"`
				}
			}
			if err := json.Unmarshal(m.Data, &stats); err != nil {
				r.t.Fatal(err)
			}
			if stats.Metadata["instance"] == "" || stats.Version == "" {
				r.t.Fatalf("listed: %s", m.Data)
			}
			got[stats.Name]++
			for _, e := range stats.Endpoints {
				if e.Subject == bus.SubjectTopologySnapshot {
					requests += e.NumRequests
				}
			}
		}
		return len(got) == len(want) && got["pgpilot-lagpoller"] == want["pgpilot-lagpoller"] &&
			got["pgpilot-classifier"] == want["pgpilot-classifier"] && requests > 0
	})
}

// startOther runs one more lagpoller with a configuration of its own, as the stack's was at
// the start but for what change makes of it.
func (r *rig) startOther(id string, change func(*config.Config)) {
	r.t.Helper()
	cfg := *r.Config()
	cfg.Replicas = slices.Clone(cfg.Replicas)
	change(&cfg)
	text, err := json.Marshal(&cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.t.TempDir(), "other.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(stacktest.Programs(r.t), rundir.Lagpoller), "-config", path, "-id", id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// Two lagpollers see different parts of the network: what one of them cannot reach is
// used all the same, and neither is believed about what the other one knows better.
func TestLagpollersThatDisagree(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	proxies, behind := behindProxies(t, cluster)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Health.Interval = config.Duration(100 * time.Millisecond)
		c.Health.Timeout = config.Duration(500 * time.Millisecond)
		c.Health.BaseBackoff = config.Duration(100 * time.Millisecond)
		c.Health.MaxBackoff = config.Duration(200 * time.Millisecond)
		c.Health.FailureThreshold = 2
		c.Failover.Wait = config.Duration(patience)
	})
	r.startOther("other", behind)
	l := r.newLoad(8)
	h := r.hearAll()
	h.all("1", "other")
	l.take()
	primary, replica := cluster.Members()[0], cluster.Members()[1]
	for name, hurt := range map[string]func(){
		"cut off from the primary": func() { proxies[primary.Name].Blackhole() },
		"refused by the primary":   func() { proxies[primary.Name].Cut() },
		"cut off from a replica":   func() { proxies[replica.Name].Blackhole() },
		"cut off from all of them": func() { hurtAll(proxies) },
	} {
		hurt()
		r.until(name+": they disagree", func() bool {
			for _, m := range cluster.Members() {
				a, ok := h.of("1", m.Name)
				b, ok2 := h.of("other", m.Name)
				if ok && ok2 && a.Healthy && !b.Healthy {
					return true
				}
			}
			return false
		})
		l.pass(150)
		r.fencedOnReplicas(name)
		l.mustBeWhole(name)
		for _, p := range proxies {
			p.Heal()
		}
		h.all("1", "other")
		l.pass(20)
		l.mustBeWhole(name + ", healed")
	}

	// The other one is cut off from the server that is promoted, and goes on naming the
	// one that is lost.
	proxies[replica.Name].Blackhole()
	r.promoted(l, primary, 1)
	for _, p := range proxies {
		p.Heal()
	}
	h.all("1", "other")
	l.pass(20)
	l.mustBeWhole("after the promotion")
}

func hurtAll(proxies map[string]*faultproxy.Proxy) {
	for _, p := range proxies {
		p.Blackhole()
	}
}

// promoted kills the primary and promotes a replica under load, and waits until writes
// go there. Statements that ran on the primary when it died may fail.
func (r *rig) promoted(l *load, old *lab.Member, replica int) {
	r.t.Helper()
	r.caughtUp()
	if err := old.Kill(timeout(r.t)); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Lab.Promote(timeout(r.t), replica); err != nil {
		r.t.Fatal(err)
	}
	next := r.Lab.Primary()
	r.until("writes have moved", func() bool {
		c := r.connect()
		defer c.close()
		rows, err := c.run("INSERT INTO load VALUES (-2, 0) ON CONFLICT (row) DO UPDATE SET v = 1 RETURNING inet_server_port()")
		return err == nil && len(rows) == 1 && rows[0][0] == fmt.Sprint(next.Port)
	})
	l.pass(20)
	if t := l.take(); t.stale != 0 || t.failed != 0 {
		r.t.Errorf("the promotion: %d reads were stale, %d failed: %q", t.stale, t.failed, t.notes)
	}
}

// A promotion while one of two lagpollers is down is followed at once, and the one that
// comes back says the same.
func TestAPromotionWhileALagpollerIsDown(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := rigOf(t, stacktest.Options{Lab: cluster, Lagpollers: 2}, func(c *config.Config) {
		c.Failover.Wait = config.Duration(patience)
		c.Health.Interval = config.Duration(200 * time.Millisecond)
	})
	l := r.newLoad(8)
	l.take()
	r.kill(rundir.Lagpoller, 2)
	r.promoted(l, cluster.Members()[0], 1)
	r.start(rundir.Lagpoller, 2)
	r.hearAll().all("1", "2")
	l.pass(50)
	l.mustBeWhole("both are there again")
	if n := r.metric("pgpilot_fence_lost_total"); n != 0 {
		t.Errorf("%v writes are said to be lost", n)
	}
	// The one that was there has to go, and the other is enough.
	r.kill(rundir.Lagpoller, 1)
	l.pass(50)
	r.fencedOnReplicasLeft("with the other alone")
	l.mustBeWhole("with the other alone")
}

// fencedOnReplicasLeft is fencedOnReplicas after the promotion of the first.
func (r *rig) fencedOnReplicasLeft(what string) {
	r.t.Helper()
	c := r.connect()
	defer c.close()
	r.until(what+": the replica that is left serves a fenced session", func() bool {
		c.must("UPDATE load SET v = v WHERE row = -1")
		for range 50 {
			if c.port() != r.Lab.Primary().Port {
				return true
			}
		}
		return false
	})
}

// One more lagpoller is heard without anybody's help, and the only one may then go.
func TestAnotherLagpollerTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), func(c *config.Config) { c.Health.Interval = config.Duration(200 * time.Millisecond) })
	l := r.newLoad(4)
	h := r.hearAll()
	l.take()
	if _, err := r.AddInstance(timeout(t), rundir.Lagpoller); err != nil {
		t.Fatal(err)
	}
	h.all("1", "2")
	if err := r.Service(rundir.Lagpoller, 1).Terminate(timeout(t)); err != nil {
		t.Fatal(err)
	}
	l.pass(100)
	r.fencedOnReplicas("after the first has gone")
	l.mustBeWhole("after the first has gone")
	h.all("2")
	r.until("it is joined with none that is gone", func() bool { return r.metric("pgpilot_bus_routes") == 0 })
}
