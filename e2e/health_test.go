package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// opened is how often the router has left servers alone on evidence of its own.
func (r *rig) opened() float64 {
	r.t.Helper()
	sum := 0.0
	for _, m := range r.Lab.Members() {
		sum += r.metric("pgpilot_breaker_opened_total", "backend", m.Name)
	}
	return sum
}

// patientWithServers keeps a busy machine from being evidence: a connection that takes longer
// than health.timeout counts against its server.
func patientWithServers(c *config.Config) { c.Health.Timeout = config.Duration(patience) }

// What clients do to themselves says nothing about a server: timeouts, cancel
// requests, connections that they drop.
func TestClientsCondemnNoServer(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, patientWithServers)
	const endless = "SELECT count(*) FROM generate_series(1, 1000000000)"
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			switch i % 3 {
			case 0:
				c, err := r.dial("options='-c statement_timeout=50'")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.run(endless); sqlstate(err) != "57014" {
					t.Errorf("statement_timeout: %v", err)
				}
			case 1:
				c, err := r.dial("")
				if err != nil {
					t.Error(err)
					return
				}
				pending := c.conn.Exec(timeout(t), endless)
				if err := c.conn.CancelRequest(timeout(t)); err != nil {
					t.Error(err)
				}
				c.conn.Conn().Close() // whether or not the request was in time
				_ = pending.Close()
			case 2:
				c, err := r.dial("")
				if err != nil {
					t.Error(err)
					return
				}
				pending := c.conn.Exec(timeout(t), endless)
				c.conn.Conn().Close()
				_ = pending.Close() // fails: its connection is closed
			}
		})
	}
	wg.Wait()
	for _, m := range cluster.Members() {
		su := direct(t, m)
		r.until("nothing runs on "+m.Name, func() bool {
			return su.one("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%1000000000%' AND state = 'active' AND pid <> pg_backend_pid()") == "0"
		})
	}
	if n := r.opened(); n != 0 {
		t.Errorf("servers were left alone %v times", n)
	}
	r.awaitReplicas(cluster.Replicas()...)
}

// A server that takes no more connections is full, not ill: who needs one waits.
func TestAFullServerIsNotIll(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE ROLE narrow LOGIN PASSWORD 'narrow' CONNECTION LIMIT 2")
	r := newRig(t, cluster, func(c *config.Config) {
		patientWithServers(c)
		c.Users = append(c.Users, config.User{Name: "narrow", Password: "narrow"})
		c.Pool.AcquireTimeout = config.Duration(patience)
	})
	r.caughtUp()
	var wg sync.WaitGroup
	for i := range 12 {
		c, err := r.dial("user=narrow password=narrow")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range 10 {
				sql := "SELECT count(*) FROM generate_series(1, 20000)"
				if i%3 == 0 {
					sql = fmt.Sprintf("SELECT txid_current(), %d", i)
				}
				if _, err := c.run(sql); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := r.opened(); n != 0 {
		t.Errorf("servers were left alone %v times", n)
	}
}

// Who gets no connection in time is told what the server says.
func TestWhyThereIsNoConnectionIsTold(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE ROLE lone LOGIN PASSWORD 'lone' CONNECTION LIMIT 1")
	r := newRig(t, cluster, func(c *config.Config) {
		patientWithServers(c)
		c.Users = append(c.Users, config.User{Name: "lone", Password: "lone"})
		c.Pool.AcquireTimeout = config.Duration(3 * time.Second)
	})
	has, err := pgconn.Connect(timeout(t), cluster.Primary().DSNFor("lone", "lone", lab.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = has.Close(context.Background()) })
	_, err = r.dial("user=lone password=lone")
	var told *pgconn.PgError
	if !errors.As(err, &told) || told.Code != "53300" || told.Message != "no connection to primary within 3s" || told.Detail != `The server says: too many connections for role "lone".` {
		t.Errorf("it is told %+v (%v)", told, err)
	}
}
