package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// A replica leaves and comes back, sizes, policies and modes change, ten times under
// load: no session notices.
func TestReloadUnderLoadDropsNothing(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(20)) // and narrower in between
	goes := cluster.Members()[2]
	su := direct(t, goes)
	crew := r.newCrew(16)
	crew.start()
	crew.pass(5)
	for i := range 10 {
		r.configure(func(c *config.Config) {
			c.Primary = r.cfg.Primary
			c.Replicas = slices.DeleteFunc(slices.Clone(r.cfg.Replicas), func(b config.Backend) bool { return b.Name == goes.Name })
			c.Pool.MaxSize, c.Pool.MinSize = 5, 2
			c.Servers.MaxConnections = 8
			c.Routing.Policy = config.Scored
			c.Pool.Mode = config.Transaction
		})
		r.until("every connection to the replica is closed", func() bool {
			return su.one(fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE usename = '%s'", lab.User)) == "0"
		})
		crew.pass(2)
		r.configure(func(c *config.Config) {
			c.Pool.MaxSize, c.Pool.MinSize = 20, 0
			c.Servers.MaxConnections = 0
			c.Routing.Policy = []string{config.RoundRobin, config.LeastInFlight}[i%2]
			c.Pool.Mode = []string{config.Transaction, config.Session}[i%2]
			c.Primary, c.Replicas = r.cfg.Primary, r.cfg.Replicas
			if i%3 == 2 { // which server is called the primary is only what is expected
				c.Primary, c.Replicas = r.cfg.Replicas[0], []config.Backend{r.cfg.Primary, r.cfg.Replicas[1]}
			}
		})
		r.awaitReplicas(goes)
		crew.pass(2)
	}
	crew.stop()
	crew.mustBeSound()
	if n := r.metric("pgpilot_config_reloads_total", "result", "refused"); n != 0 {
		t.Errorf("%v files were refused", n)
	}
	if _, body := r.get("/router/1/config"); !strings.Contains(body, `"max_size": 20`) || strings.Contains(body, `"password": "`+lab.Password+`"`) {
		t.Errorf("the configuration in force is shown as\n%s", body)
	}
}

// One server's connections are bounded for all logins together, and none of them
// starves.
func TestAServersConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must("CREATE ROLE other LOGIN PASSWORD 'other'; CREATE ROLE third LOGIN PASSWORD 'third'")
	r := newRig(t, cluster, func(c *config.Config) {
		c.Users = append(c.Users, config.User{Name: "other", Password: "other"}, config.User{Name: "third", Password: "third"})
		c.Servers.MaxConnections = 2
		c.Pool.AcquireTimeout = config.Duration(patience)
	})
	var sessions []*client
	for i := range 12 {
		who := []string{lab.User, "other", "third"}[i%3]
		c, err := r.dial(fmt.Sprintf("user=%s password=%s", who, map[string]string{lab.User: lab.Password, "other": "other", "third": "third"}[who]))
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c)
	}
	done := make(chan error, len(sessions))
	for _, c := range sessions {
		go func() {
			for range 5 {
				if _, err := c.run("SELECT pg_sleep(0.01), txid_current()"); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	most := 0
	for left := len(sessions); left > 0; {
		select {
		case err := <-done:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
			n := len(su.must("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%txid_current%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"))
			most = max(most, n)
		}
	}
	if most > 2 || most == 0 {
		t.Errorf("%d connections to the primary at once, want at most 2", most)
	}
}

// Connections are made ahead of need, on every server, and replaced when they are
// old.
func TestPoolsAreKeptWarm(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Pool.MinSize, c.Pool.Primary = 4, 4
	})
	r.connect().must("SELECT 1")
	idle := func(m *lab.Member) float64 {
		return r.metric("pgpilot_pool_connections", "backend", m.Name, "state", "idle")
	}
	for _, m := range cluster.Members() {
		r.until("four connections to "+m.Name+" are there", func() bool { return idle(m) == 4 })
	}
	su := direct(t, cluster.Primary())
	pids := func() string {
		return su.one(fmt.Sprintf("SELECT coalesce(string_agg(pid::text, ',' ORDER BY pid), '') FROM pg_stat_activity WHERE usename = '%s' AND application_name = ''", lab.User))
	}
	before := strings.Split(pids(), ",")
	r.configure(func(c *config.Config) { c.Pool.MaxLifetime = config.Duration(1) })
	r.until("the old ones are gone", func() bool {
		return !slices.ContainsFunc(strings.Split(pids(), ","), func(p string) bool { return slices.Contains(before, p) })
	})
	r.configure(func(c *config.Config) { c.Pool.MaxLifetime = 0 })
	r.until("four are there again", func() bool { return idle(cluster.Primary()) == 4 })
}
