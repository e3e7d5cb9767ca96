package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
)

// boundTo executes a statement of the extended protocol with parameters.
func (c *client) boundTo(sql string, params ...string) (*pgconn.Result, error) {
	var values [][]byte
	for _, p := range params {
		values = append(values, []byte(p))
	}
	r := c.conn.ExecParams(timeout(c.t), sql, values, nil, nil, nil).Read()
	return r, r.Err
}

// boundBy gives what binds the session to its connection, nothing if nothing does.
func (c *client) boundBy() string {
	c.t.Helper()
	rows, err := c.run("SHOW pgpilot.session")
	if err != nil || len(rows) != 1 {
		c.t.Errorf("SHOW pgpilot.session: %v, %v", rows, err)
		return ""
	}
	return rows[0][1]
}

// Applications that say with set_config who their user is share a single connection,
// each sees its user's rows alone, and none is bound to the connection (rules 20, 21).
func TestRowLevelSecurityBySetConfig(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		narrow(1)(c)
		c.Routing.ReadFunctions = append(c.Routing.ReadFunctions, "pg_catalog.current_setting")
	})
	r.connect().must(`CREATE TABLE notes (owner text, body text); ALTER TABLE notes ENABLE ROW LEVEL SECURITY; ALTER TABLE notes FORCE ROW LEVEL SECURITY;
		CREATE POLICY own ON notes USING (owner = current_setting('app.user', true))`)
	r.caughtUp()
	const rounds = 30
	onReplica := make([]int, 4)
	var all sync.WaitGroup
	for i := range onReplica {
		c := r.connect()
		user := fmt.Sprintf("user%d", i)
		sees := func(when, want string) {
			rows, err := c.run("SELECT coalesce(string_agg(DISTINCT owner, ','), ''), inet_server_port() FROM notes")
			if err != nil || rows[0][0] != want {
				t.Errorf("%s, %s sees the rows of %v (%v), want %s", when, user, rows, err, want)
				return
			}
			if rows[0][1] != fmt.Sprint(cluster.Primary().Port) {
				onReplica[i]++
			}
		}
		all.Go(func() {
			for round := range rounds {
				if _, err := c.run("BEGIN"); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.boundTo("SELECT set_config('app.user', $1, true)", user); err != nil {
					t.Error(err)
				}
				if _, err := c.boundTo("INSERT INTO notes VALUES ($1, 'x')", user); err != nil {
					t.Error(err)
				}
				sees("in its transaction", user)
				if _, err := c.run("COMMIT"); err != nil {
					t.Error(err)
				}
				sees("after it", "")
				if _, err := c.boundTo("SELECT set_config($1, $2, $3)", "app.user", user, "false"); err != nil {
					t.Error(err)
				}
				for range 3 {
					sees("with a setting of the session", user)
				}
				if round%2 == 0 {
					if _, err := c.run("SELECT set_config('app.user', NULL, false)"); err != nil {
						t.Error(err)
					}
				} else if _, err := c.run(`RESET "app"."user"`); err != nil {
					t.Error(err)
				}
				if got := c.boundBy(); got != "" {
					t.Errorf("%s is bound to its connection: %s", user, got)
					return
				}
			}
		})
	}
	all.Wait()
	for i, n := range onReplica {
		if n == 0 {
			t.Errorf("no read of user%d ran on a replica", i)
		}
	}
}

// set_config of a parameter of the router's is refused, however it is sent, and neither
// binds the session nor leaves anything on a server (rule 29).
func TestSetConfigOfTheRoutersParameters(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	const once = "SELECT set_config('PgPilot.route', 'replica', false)"
	if e := c.fails(once, "0A000"); e != nil && e.Hint == "" {
		t.Error("the error does not say what to do")
	}
	const bound = "SELECT set_config($1, $2, $3)"
	_, err := c.boundTo(bound, "pgpilot.route", "primary", "t")
	if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != "0A000" {
		t.Errorf("bound: %v", err)
	}
	for _, sql := range []string{
		"SELECT 1; SELECT set_config('pgpilot.route', 'primary', false)",
		"SELECT length(set_config('pgpilot.route', 'primary', true)) FROM generate_series(1, 2)",
		"PREPARE set_route AS SELECT set_config('pgpilot.route', $1, false)",
		"SET pgpilot.route = 'replica'; SELECT set_config('pgpilot.route', 'primary', false)",
	} {
		c.fails(sql, "0A000")
		if _, err := c.boundTo(strings.Split(sql, "; ")[strings.Count(sql, "; ")]); sqlstate(err) != "0A000" {
			t.Errorf("%s with Parse and Bind: %v", sql, err)
		}
	}
	c.must("PREPARE set_any AS SELECT set_config($1, $2, false)")
	c.fails("EXECUTE set_any ('pgpilot.route', 'primary')", "0A000")
	c.must("EXECUTE set_any ('app.user', 'somebody')")
	c.must("DISCARD ALL")
	if got := c.one("SHOW pgpilot.route"); got != "auto" {
		t.Errorf("the route is %s", got)
	}
	if _, err := c.boundTo(bound, "app.user", "somebody", "f"); err != nil {
		t.Errorf("an application's own: %v", err)
	}
	c.must("BEGIN")
	c.must("SELECT 1")
	c.fails(once, "0A000")
	c.fails("SELECT 1", "25P02")
	c.must("ROLLBACK")
	c.must("BEGIN")
	c.fails(once, "0A000") // nothing has run in the block yet
	c.fails("SELECT 1", "25P02")
	c.must("ROLLBACK")
	if why := c.boundBy(); why != "" {
		t.Errorf("the session is bound by %s", why)
	}
	if got := c.one("SELECT coalesce(current_setting('pgpilot.route', true), '')"); got != "" {
		t.Errorf("the server has the value %s", got)
	}
}
