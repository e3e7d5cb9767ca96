package e2e

import (
	"fmt"
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
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Pool.MaxSize = 1
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
