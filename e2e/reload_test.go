package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

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

// One server's connections are bounded for all pools together, and none of them starves.
// The server counts them itself: one more, also for the moment in which another one ends,
// would be refused (53300) and be in its log.
func TestAServersConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	primary := cluster.Primary()
	su := direct(t, primary)
	const most = 2
	su.must(fmt.Sprintf("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT %d", most))
	databases := []string{lab.Database, "second", "third"}
	for _, name := range databases[1:] {
		su.must("CREATE DATABASE " + name)
	}
	r := newRig(t, cluster, func(c *config.Config) {
		c.Users = append(c.Users, config.User{Name: "few", Password: "few"})
		c.Servers.MaxConnections = most
		c.Pool.AcquireTimeout = config.Duration(patience)
	})
	done := make(chan error)
	const sessions = 12
	for i := range sessions {
		c, err := r.dial("user=few password=few dbname=" + databases[i%len(databases)])
		if err != nil {
			t.Fatal(err)
		}
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
	for range sessions {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	refusals := func() int {
		text, err := os.ReadFile(primary.LogFile())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), `too many connections for role "few"`)
	}
	if n := refusals(); n != 0 {
		t.Errorf("the server has refused %d connections", n)
	}
	for range most + 1 { // had there been one, it would have been seen
		if conn, err := pgconn.Connect(timeout(t), primary.DSNFor("few", "few", "template1")); err == nil {
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
		}
	}
	if refusals() == 0 {
		t.Error("what the server refuses does not show")
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
