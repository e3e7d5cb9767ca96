//go:build compose

package compose

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rounds = flag.Int("rounds", 3, "how many `times` each service is restarted under load")

const file = "compose.yaml"

// The stack from nothing to nothing, as somebody uses it who has only Docker.
func TestStack(t *testing.T) {
	p := newProject(t, "pgpilot-test", nil, file)
	p.compose("build")
	p.up()

	t.Run("containers", p.testContainers)
	t.Run("clients", p.testClients)
	t.Run("restarts", p.testRestarts)
	t.Run("routers", p.testRouters)
	t.Run("lagpollers", p.testLagpollers)
	t.Run("own servers", p.testOwnServers)
	t.Run("pods", p.testPods)
	t.Run("observability", p.testObservability)

	if t.Failed() {
		return // the logs are still wanted
	}
	p.down()
	if left := p.left(); len(left) != 0 {
		t.Errorf("down left behind: %v", left)
	}
}

// Nothing runs as root or without limits, can write outside its volumes, or has
// a network namespace that ends with its restart.
func (p *project) testContainers(t *testing.T) {
	p = p.with(t)
	all := p.inspect(p.containers("")...)
	if len(all) != 8 {
		t.Errorf("%d containers run, want net, four services and three servers", len(all))
	}
	for _, c := range all {
		service := c.Config.Labels["com.docker.compose.service"]
		if user := c.Config.User; user == "" || user == "root" || strings.HasPrefix(user, "0") {
			t.Errorf("%s runs as %q", c.Name, user)
		}
		if !c.HostConfig.ReadonlyRootfs {
			t.Errorf("%s can write to its root file system", c.Name)
		}
		if c.HostConfig.NanoCpus == 0 || c.HostConfig.Memory == 0 || c.HostConfig.PidsLimit == nil || *c.HostConfig.PidsLimit <= 0 {
			t.Errorf("%s has no limit of processor time, memory or processes", c.Name)
		}
		if !slices.Contains(c.HostConfig.CapDrop, "ALL") || !slices.Contains(c.HostConfig.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s could gain privileges: it drops %v and has %v", c.Name, c.HostConfig.CapDrop, c.HostConfig.SecurityOpt)
		}
		if joined := strings.HasPrefix(c.HostConfig.NetworkMode, "container:"); joined != slices.Contains(services(), service) {
			t.Errorf("%s has the network %q", c.Name, c.HostConfig.NetworkMode)
		}
	}
}

func services() []string { return []string{"listener", "router", "classifier", "lagpoller"} }

// Every client of the README works, from a container.
func (p *project) testClients(t *testing.T) {
	p = p.with(t)
	if got := p.run("psql", "-Atc", "SELECT 1"); got != "1\n" {
		t.Errorf("psql: %q", got)
	}
	p.run("pgbench", "--initialize", "--quiet", "--scale=1")
	for _, script := range []string{"tpcb-like", "select-only"} {
		out := p.run("pgbench", "--builtin="+script, "--client=8", "--transactions=100", "--no-vacuum", "--protocol=prepared")
		if !strings.Contains(out, "number of failed transactions: 0 ") || !strings.Contains(out, "800/800") {
			t.Errorf("pgbench %s:\n%s", script, out)
		}
	}
	if out := p.run("nats", "sub", "pgpilot.lag.>", "--count=3", "--raw"); !strings.Contains(out, `"replay_lsn"`) && !strings.Contains(out, `"insert_lsn"`) {
		t.Errorf("nats sub:\n%s", out)
	}
	if out := p.run("demo"); strings.Count(out, "   it read '") != 3 {
		t.Errorf("demo:\n%s", out)
	}
	if code, body, err := p.page("METRICS_PORT", "/readyz"); err != nil || code != 200 {
		t.Errorf("/readyz: %d, %v\n%s", code, err, body)
	}
}

func (p *project) dsn() string {
	return "postgres://pgpilot:pgpilot@127.0.0.1:" + p.ports["PGPILOT_PORT"] + "/pgpilot?sslmode=disable"
}

// Each service is restarted while clients work, who do not notice.
func (p *project) testRestarts(t *testing.T) {
	p = p.with(t)
	l := startLoad(t, p.dsn())
	l.settle(t)
	for round := range *rounds {
		for _, service := range services() {
			l.during(t, fmt.Sprintf("restart %s, round %d", service, round+1), func() {
				p.compose("restart", service)
				p.waitHealthy(service, 1)
			})
		}
	}
	l.check(t)
}

// Routers come and go while clients work.
func (p *project) testRouters(t *testing.T) {
	p = p.with(t)
	l := startLoad(t, p.dsn())
	l.settle(t)
	l.during(t, "1 to 3 routers", func() { p.scale(3) })

	l.renewAll(t) // those who log in now are spread over all routers
	p.spread(t, 3)
	one := p.containers("router")[0]
	l.during(t, "restart one of three routers", func() {
		if _, err := docker(t.Context(), p.env, "restart", one); err != nil {
			t.Fatal(err)
		}
		p.waitHealthy("router", 3)
	})

	l.renewAll(t)
	p.spread(t, 3)
	l.during(t, "3 routers to 1", func() { p.scale(1) })
	l.check(t)
}

// during does something under load: no client may lose its session, no login may fail,
// and afterwards every client must go on.
func (l *load) during(t *testing.T, what string, do func()) {
	t.Helper()
	before, refused, noted := l.lostBy(), l.refused.Load(), len(l.noted(&l.losses, 0))
	do()
	l.settle(t)
	losers := l.losers(before)
	refused = l.refused.Load() - refused
	t.Logf("%s: %d clients lost their session, %d logins failed", what, losers, refused)
	if losers > 0 {
		t.Errorf("%s: %d clients lost their session:\n%s", what, losers, strings.Join(l.noted(&l.losses, noted), "\n"))
	}
	if refused > 0 {
		t.Errorf("%s: %d logins failed", what, refused)
	}
}

// check ends the load and says what no client may ever see.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.end()
	total := int64(0)
	for i := range l.rounds {
		total += l.rounds[i].Load()
	}
	t.Logf("%d writes, each read back", total)
	if stale := l.noted(&l.stale, 0); len(stale) != 0 {
		t.Errorf("stale reads:\n%s", strings.Join(stale, "\n"))
	}
}

// scale changes the number of routers and leaves those that stay alone.
func (p *project) scale(routers int) {
	p.t.Helper()
	p.up("--no-build", "--no-recreate", "--scale", fmt.Sprintf("router=%d", routers))
	p.waitHealthy("router", routers)
}

// waitHealthy waits until a service has so many containers, all healthy, and the
// listener sees the whole stack ready.
func (p *project) waitHealthy(service string, number int) {
	p.t.Helper()
	eventually(p.t, service+" is healthy", func() error {
		states := strings.Fields(p.compose("ps", "--format", "{{.Health}}", service))
		if len(states) != number || slices.ContainsFunc(states, func(s string) bool { return s != "healthy" }) {
			return fmt.Errorf("%d containers wanted, there are: %v", number, states)
		}
		code, body, err := p.page("METRICS_PORT", "/readyz")
		if err == nil && (code != 200 || strings.Count(body, `"`+service+`.`) != number) {
			err = fmt.Errorf("/readyz: %d %s", code, body)
		}
		return err
	})
}

var activeSessions = regexp.MustCompile(`(?m)^pgpilot_sessions_active\{instance="([^"]+)",service="router"\} (\d+)$`)

// spread waits until so many routers have the load's sessions, each some of them.
func (p *project) spread(t *testing.T, routers int) {
	t.Helper()
	eventually(t, "every router has some of the load's sessions", func() error {
		_, body, err := p.page("METRICS_PORT", "/metrics")
		if err != nil {
			return err
		}
		found, total := map[string]int{}, 0
		for _, m := range activeSessions.FindAllStringSubmatch(body, -1) {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return err
			}
			if n > 0 {
				found[m[1]] = n
			}
			total += n
		}
		if total != clients || len(found) != routers {
			return fmt.Errorf("they have %v, want %d in all on %d routers", found, clients, routers)
		}
		return nil
	})
}

// own is a second project in front of the first one's servers, which it reaches over
// the first one's network.
func (p *project) own(t *testing.T, name string, files ...string) *project {
	return newProject(t, p.name+"-"+name, []string{
		"APP_USER=pgpilot", "APP_PASSWORD=pgpilot", "APP_DATABASE=pgpilot", "MONITOR_PASSWORD=monitor",
		"SERVERS_NETWORK=" + p.name + "_default", "PGPILOT_ROUTERS=2",
		"PGPILOT_IMAGES=pgpilot", "PGPILOT_TAG=dev", // these are built already
	}, append([]string{file, "own-servers.yaml", "testdata/own-servers.yaml"}, files...)...)
}

// readsOnAReplica waits until a read runs there: then positions are known, and the
// statement, which was a write while no classifier had answered in time.
func (p *project) readsOnAReplica() {
	p.t.Helper()
	eventually(p.t, "a read runs on a replica", func() error {
		got, err := p.try("run", "--rm", "--no-TTY", "psql", "-Atc", "SELECT count(*) FROM pgbench_branches", "-c", "SHOW pgpilot.last_route")
		if err != nil {
			if strings.Contains(err.Error(), "psql:") {
				p.t.Fatal(err) // the stack is ready, so nobody is refused
			}
			return err
		}
		if !strings.HasPrefix(got, "1\n") || !strings.Contains(got, "|replica|read|") {
			return fmt.Errorf("psql: %q", got)
		}
		return nil
	})
}

// Servers that are not in the compose files, and images of a release.
func (p *project) testOwnServers(t *testing.T) {
	own := p.with(t).own(t, "own", "production.yaml")
	if all := own.compose("config"); strings.Contains(all, "build:") || strings.Contains(all, "postgresql/data/cluster") {
		t.Errorf("something is built, or a bundled server is there:\n%s", all)
	}
	own.up()
	if got := strings.Fields(own.compose("ps", "--services")); len(got) != 5 {
		t.Errorf("running: %v; want net and four services", got)
	}
	if got := own.containers("router"); len(got) != 2 {
		t.Errorf("%d routers, want two", len(got))
	}
	own.readsOnAReplica()

	nameless := own.with(t)
	nameless.env = append(slices.Clone(own.env), "PGPILOT_TAG=")
	if _, err := nameless.try("up", "--detach"); err == nil || !strings.Contains(err.Error(), "PGPILOT_TAG is not set") && !strings.Contains(err.Error(), "the release to run") {
		t.Errorf("without a release: %v", err)
	}
}

// What the manifests for Kubernetes rely on: a bus over the network, metrics of a lagpoller
// that no listener relays, and a folder of sockets that the services make themselves.
func (p *project) testPods(t *testing.T) {
	own := p.with(t).own(t, "pods", "testdata/pods.yaml")
	own.up()
	own.readsOnAReplica()
	page := own.compose("exec", "--no-TTY", "net", "wget", "-qO-", "http://lagpoller:9090/metrics")
	if strings.Count(page, "pgpilot_backend_healthy{") != 3 {
		t.Errorf("the lagpoller's metrics:\n%s", page)
	}
	if code, body, err := own.page("METRICS_PORT", "/readyz"); err != nil || code != 200 || strings.Contains(body, "lagpoller") {
		t.Errorf("/readyz: %d, %v\n%s", code, err, body)
	}
}

// Prometheus finds its one target.
func (p *project) testObservability(t *testing.T) {
	p = p.with(t)
	p.compose("up", "--detach", "--no-deps", "prometheus")
	eventually(t, "Prometheus has the services' metrics", func() error {
		_, body, err := p.page("PROMETHEUS_PORT", "/api/v1/query?query=count(pgpilot_up==1)")
		if err == nil && !strings.Contains(body, `"4"]`) {
			err = fmt.Errorf("answer: %s", body)
		}
		return err
	})
}
