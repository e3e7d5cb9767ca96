package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// Sessions that have set different things share a few connections, and each finds
// what it has set on every one of them, the replicas' included (rule 20).
func TestSettingsFollowTheSession(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(2))
	const sessions, rounds = 8, 60
	owner := r.connect()
	for i := range sessions {
		owner.must(fmt.Sprintf("CREATE SCHEMA s%d; CREATE TABLE s%d.v (n int); INSERT INTO s%d.v VALUES (%d)", i, i, i, i))
	}
	r.caughtUp()
	for i := range sessions {
		c := r.connect()
		c.must(fmt.Sprintf("SET search_path TO s%d", i))
		r.until("its table is read on replicas", func() bool {
			c.must("SELECT n, '2024-01-01 00:00+00'::timestamptz::text, inet_server_port() FROM v")
			return c.route().Role == "replica"
		})
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	onReplica := 0
	for i := range sessions {
		c := r.connect()
		all.Go(func() {
			zone := fmt.Sprintf("Etc/GMT-%d", i+1)
			if _, err := c.run(fmt.Sprintf("SET search_path TO s%d", i)); err != nil {
				t.Error(err)
				return
			}
			if _, err := c.run(fmt.Sprintf("SET TIME ZONE '%s'", zone)); err != nil {
				t.Error(err)
				return
			}
			want := fmt.Sprintf("%d 2024-01-01 %02d:00:00+%02d", i, i+1, i+1)
			for round := range rounds {
				rows, err := c.run("SELECT n, '2024-01-01 00:00+00'::timestamptz::text, inet_server_port() FROM v")
				if err != nil || len(rows) != 1 {
					t.Errorf("session %d: %v, %v", i, rows, err)
					return
				}
				if got := rows[0][0] + " " + rows[0][1]; got != want {
					t.Errorf("session %d reads %s, want %s", i, got, want)
				}
				if rows[0][2] != fmt.Sprint(cluster.Primary().Port) {
					mu.Lock()
					onReplica++
					mu.Unlock()
				}
				if round%10 == 0 {
					if _, err := c.run(fmt.Sprintf("UPDATE v SET n = %d", i)); err != nil {
						t.Error(err)
						return
					}
				}
			}
			if got := c.conn.ParameterStatus("TimeZone"); got != zone {
				t.Errorf("session %d was told of time zone %s", i, got)
			}
		})
	}
	all.Wait()
	if onReplica < sessions*rounds/20 { // behind a write, and where replicas lag, they run on the primary
		t.Errorf("%d of %d reads ran on replicas", onReplica, sessions*rounds)
	}
	plain := r.connect()
	for range 20 {
		if got := plain.one("SELECT '2024-01-01 00:00+00'::timestamptz::text"); got != "2024-01-01 00:00:00+00" {
			t.Fatalf("a session that has set nothing reads %s", got)
		}
		plain.must("CREATE TEMP TABLE x (a int)")
		plain.must("DISCARD ALL")
	}
}

// What was set ends as PostgreSQL has it: with its transaction, to its savepoint, at
// RESET.
func TestSettingsEndAsDirect(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c, d := r.connect(), direct(t, cluster.Primary())
	const ask = "SELECT '2024-01-01 00:00+00'::timestamptz::text"
	for _, sql := range []string{
		"SET TIME ZONE 'Etc/GMT-1'", "BEGIN", "SET TIME ZONE 'Etc/GMT-2'", "ROLLBACK",
		"BEGIN", "SET TIME ZONE 'Etc/GMT-3'", "COMMIT", "BEGIN", "SET LOCAL TIME ZONE 'Etc/GMT-4'", "COMMIT",
		"BEGIN", "SAVEPOINT a", "SET TIME ZONE 'Etc/GMT-5'", "ROLLBACK TO a", "COMMIT",
		"BEGIN", "SAVEPOINT a", "SET TIME ZONE 'Etc/GMT-6'", "RELEASE a", "COMMIT",
		"SET TIME ZONE 'Etc/GMT-7'; SELECT 1/0", "SET TIME ZONE 'nowhere'", "SET TIME ZONE 'Etc/GMT-7'; SET work_mem = '1MB'",
		"BEGIN; SET TIME ZONE 'Etc/GMT-8'; SELECT 1/0", "COMMIT",
		"SET LOCAL TIME ZONE 'Etc/GMT-9'", "RESET TIME ZONE", "SET TIME ZONE 'Etc/GMT-8'", "RESET ALL", "SET TIME ZONE 'Etc/GMT-8'", "DISCARD ALL",
	} {
		for _, s := range []*client{c, d} {
			if _, err := s.run(sql); err != nil && sqlstate(err) != "22012" && sqlstate(err) != "22023" && sqlstate(err) != "25P02" {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		got, err := c.run(ask)
		want, err2 := d.run(ask)
		if fmt.Sprint(got, sqlstate(err)) != fmt.Sprint(want, sqlstate(err2)) {
			t.Errorf("after %s: %v %v, direct %v %v", sql, got, err, want, err2)
		}
		if got, want := c.conn.ParameterStatus("TimeZone"), d.conn.ParameterStatus("TimeZone"); got != want {
			t.Errorf("after %s the client was told of time zone %s, direct of %s", sql, got, want)
		}
	}
	if l := c.route(); l.Reason == "pinned" {
		t.Errorf("SET has bound the session to its connection: %+v", l)
	}
}

// A role that a replica does not know yet: its reads run on the primary, as that
// role, and on the replica once it knows.
func TestSetRoleUnknownToReplicas(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	super := direct(t, cluster.Primary())
	super.must("CREATE TABLE secret (a int); CREATE TABLE open (a int)")
	super.must("GRANT SELECT ON open TO pgpilot")
	r.caughtUp()
	c := r.connect()
	r.until("the table is known", func() bool {
		c.must("SELECT count(*) FROM open")
		return c.route().Role == "replica"
	})
	pause(t, cluster.Replicas()...)
	super.must("CREATE ROLE reader; GRANT reader TO pgpilot; GRANT SELECT ON open TO reader")
	c.must("SET ROLE reader")
	if got := c.one("SELECT count(*) FROM open"); got != "0" {
		t.Errorf("%s rows", got)
	}
	if l := c.route(); l.Role != "primary" || l.Reason != "settings" {
		t.Errorf("it ran on %+v", l)
	}
	c.fails("SELECT count(*) FROM secret", "42501")
	resume(t, cluster.Replicas()...)
	r.caughtUp()
	c.must("RESET ROLE")
	c.must("SET ROLE reader")
	r.until("the role reads from replicas", func() bool {
		c.must("SELECT count(*) FROM open")
		return c.route().Role == "replica"
	})
	c.fails("SELECT count(*) FROM secret", "42501")
	super.must("REVOKE reader FROM pgpilot")
	r.caughtUp()
	// Connections that have the role keep it, as direct ones do; no other gets it.
	other := r.connect()
	other.fails("SET ROLE reader", "42501")
}
