package e2e

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// lent counts the connections that clients' sessions have on a server.
func lent(t testing.TB, c *client) int {
	t.Helper()
	n, err := strconv.Atoi(c.one("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = 'pgpilot' AND usename = 'pgpilot' AND application_name = 'limited'"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPoolSizeIsNeverExceeded(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(2))
	r.connect().must("CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)")
	var watchers []*client
	for _, m := range cluster.Members() {
		watchers = append(watchers, direct(t, m))
	}
	var work, watch sync.WaitGroup
	quit := make(chan struct{})
	highest := make([]int, len(watchers))
	for i, w := range watchers {
		watch.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					highest[i] = max(highest[i], lent(t, w))
				}
			}
		})
	}
	for i := range 20 {
		c, err := r.dial("application_name=limited")
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			for n := range 50 {
				for _, sql := range []string{"SELECT pg_sleep(0.001)", "UPDATE counter SET n = n + 1", "BEGIN; SELECT 1; COMMIT"} {
					if _, err := c.run(sql); err != nil {
						t.Errorf("session %d, round %d: %v", i, n, err)
						return
					}
				}
			}
		})
	}
	work.Wait()
	close(quit)
	watch.Wait()
	for i, m := range cluster.Members() {
		if highest[i] < 1 || highest[i] > 2 {
			t.Errorf("%s had %d connections, want 1 or 2", m.Name, highest[i])
		}
	}
	if got := r.connect().one("SELECT n FROM counter"); got != "1000" {
		t.Errorf("the counter is %s after 1000 increments", got)
	}
}

func TestWaitingForAConnectionIsLimited(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Pool.MaxSize, c.Pool.MaxWaiters = 1, 2
		c.Pool.AcquireTimeout = config.Duration(20 * time.Second) // for others to see that it waits
	})
	var cs []*client
	for range 4 {
		cs = append(cs, r.connect())
	}
	cs[0].must("BEGIN; SELECT 1")
	waits := make(chan error, 2)
	for _, c := range cs[1:3] {
		go func() {
			_, err := c.run("CREATE TABLE never (a int)")
			waits <- err
		}()
	}
	r.until("two sessions wait", func() bool { return r.metric("pgpilot_pool_waiters", "backend", "primary") == 2 })

	refused := cs[3].fails("CREATE TABLE never (a int)", "53300")
	if refused.Message != "too many sessions are waiting for a connection to primary" || refused.Detail != "pool.max_waiters is 2." || refused.Hint == "" {
		t.Errorf("one waiter too many is told %+v", refused)
	}
	if got := cs[3].port(); got == cluster.Primary().Port {
		t.Error("reads do not go on")
	}
	for range 2 {
		err := <-waits
		if sqlstate(err) != "57P03" || err.Error() != "ERROR: no connection to primary within 20s (SQLSTATE 57P03)" {
			t.Errorf("a waiter is told %v", err)
		}
	}
	cs[0].must("COMMIT")
	for _, c := range cs {
		c.must("CREATE TABLE IF NOT EXISTS later (a int)")
		if c.one("SELECT to_regclass('never') IS NULL") != "t" {
			t.Error("a refused statement has run")
		}
	}
}

// What one client leaves in its server session is not there for the next one, who
// gets the same connection.
func TestNothingLeaksBetweenClients(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("CREATE ROLE other NOLOGIN; GRANT other TO pgpilot; CREATE SCHEMA side; GRANT ALL ON SCHEMA side, public TO other, pgpilot")
	const remote = `'host=127.0.0.1 dbname=pgpilot user=pgpilot password=pgpilot'`
	direct(t, cluster.Primary()).must("CREATE EXTENSION dblink; GRANT EXECUTE ON FUNCTION pg_create_physical_replication_slot TO pgpilot; " +
		"CREATE FUNCTION connects() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN PERFORM dblink_connect('hidden', 'port=' || inet_server_port() || ' ' || " + remote + "); END$$; " +
		"CREATE FUNCTION updates() RETURNS void LANGUAGE sql AS $$UPDATE pg_settings SET setting = '1MB' WHERE name = 'work_mem'$$")
	r := newRig(t, cluster, narrow(1))
	r.caughtUp()
	for name, c := range map[string]struct{ leave, look, want string }{
		"dblink":                  {"SELECT dblink_connect('mine', 'port=' || inet_server_port() || ' ' || " + remote + ")", "SELECT dblink_get_connections() IS NULL", "t"},
		"dblink in a function":    {"SELECT connects()", "SELECT dblink_get_connections() IS NULL", "t"},
		"dblink in DO":            {"DO $$BEGIN PERFORM dblink_connect('mine', 'port=' || inet_server_port() || ' ' || " + remote + "); END$$", "SELECT dblink_get_connections() IS NULL", "t"},
		"pg_settings":             {"UPDATE pg_settings SET setting = '1MB' WHERE name = 'work_mem'", "SHOW work_mem", "4MB"},
		"pg_settings in function": {"SELECT updates()", "SHOW work_mem", "4MB"},
		"seed of random":          {"SELECT setseed(0.5)", "SELECT random() IN (SELECT v FROM (SELECT setseed(0.5)) s, LATERAL (SELECT random() AS v) r)", "f"},
		"temporary slot":          {"SELECT pg_create_physical_replication_slot('mine', false, true)", "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'mine' AND active_pid = pg_backend_pid()", "0"},
		"search_path":             {"SET search_path = side", "SHOW search_path", `"$user", public`},
		"set_config":              {"SELECT set_config('work_mem', '1MB', false)", "SHOW work_mem", "4MB"},
		"set_config of a list":    {"SELECT set_config('search_path', 'side,public', false)", "SHOW search_path", `"$user", public`},
		"set_config of a role":    {"SELECT set_config('role', 'other', false)", "SELECT current_user", lab.User},
		"local set_config":        {"BEGIN; SELECT set_config('work_mem', '1MB', true); COMMIT", "SHOW work_mem", "4MB"},
		"computed set_config":     {"SELECT set_config('work_' || 'mem', '1MB', false)", "SHOW work_mem", "4MB"},
		"role":                    {"SET ROLE other", "SELECT current_user", lab.User},
		"session authorization":   {"SET SESSION AUTHORIZATION pgpilot", "SELECT session_user", lab.User},
		"role inside DO":          {"DO $$BEGIN SET ROLE other; END$$", "SELECT current_user", lab.User},
		"time zone":               {"SET TIME ZONE 'Asia/Tokyo'", "SHOW TimeZone", "Etc/UTC"},
		"temporary table":         {"CREATE TEMP TABLE t (a int)", "SELECT to_regclass('pg_temp.t') IS NULL", "t"},
		"temporary table by INTO": {"SELECT 1 INTO TEMP t", "SELECT to_regclass('pg_temp.t') IS NULL", "t"},
		"advisory lock":           {"SELECT pg_advisory_lock(42)", "SELECT pg_try_advisory_lock(42)", "t"},
		"prepared statement":      {"PREPARE p AS SELECT 1", "SELECT count(*) FROM pg_prepared_statements", "0"},
		"cursor with hold":        {"BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT", "SELECT count(*) FROM pg_cursors", "0"},
		"listen":                  {"LISTEN news", "SELECT count(*) FROM pg_listening_channels()", "0"},
		"sequence":                {"CREATE SEQUENCE IF NOT EXISTS s; SELECT nextval('s')", "SELECT lastval()", "55000"},
		"session read only":       {"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SHOW default_transaction_read_only", "off"},
		"open transaction":        {"BEGIN; CREATE TABLE half (a int)", "SELECT to_regclass('half') IS NULL", "t"},
		"failed transaction":      {"BEGIN; SELECT 1/0", "SELECT 1", "1"},
		"local setting":           {"BEGIN; SET LOCAL work_mem = '1MB'; COMMIT", "SHOW work_mem", "4MB"},
		"application name":        {"SET application_name = 'mine'", "SHOW application_name", ""},
	} {
		t.Run(name, func(t *testing.T) {
			first := r.connect()
			if want := c.want; name == "time zone" || name == "search_path" || name == "set_config of a list" {
				c.want = first.one(c.look)
				if c.want != want {
					t.Logf("a fresh session shows %q", c.want)
				}
			}
			if _, err := first.run(c.leave); err != nil && sqlstate(err) != "22012" {
				t.Fatal(err)
			}
			first.close()
			next := r.connect()
			// In a transaction it is asked on the primary, where it was left.
			for _, sql := range []string{"BEGIN; " + c.look, "ROLLBACK; " + c.look} {
				rows, err := next.run(sql)
				got := sqlstate(err)
				if err == nil {
					got = fmt.Sprint(rows[0][0])
				}
				if got != c.want {
					t.Errorf("%s: %s, want %s", sql, got, c.want)
				}
			}
			next.close()
		})
	}
}
