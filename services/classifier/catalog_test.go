package main

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// over rewrites the configuration for a real server.
func (s *stand) over(c *lab.Cluster, reads ...string) {
	s.t.Helper()
	b, err := json.Marshal(map[string]any{
		"run_dir":  s.dir.Path(),
		"primary":  fmt.Sprintf("%s:%d", c.Primary().Host, c.Primary().Port),
		"users":    []map[string]string{{"name": lab.User, "password": lab.Password}},
		"routing":  map[string]any{"read_functions": append([]string{}, reads...)},
		"classify": map[string]any{"timeout": "30s"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.config, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// askDatabase puts a question about the lab's own database.
func askDatabase(t testing.TB, c *verdict.Client, text string) (verdict.Verdict, error) {
	t.Helper()
	type answer struct {
		v   verdict.Verdict
		err error
	}
	got := make(chan answer, 1)
	c.Ask(verdict.Request{Key: keyOf(t, text), Database: lab.Database, Text: text}, func(v verdict.Verdict, err error) { got <- answer{v, err} })
	a := <-got
	return a.v, a.err
}

// A redefined function makes the classifiers flush, and what they say from then on
// is of the new generation and right. A statement about something that is created
// only then has no verdict before, and one at once after.
func TestAChangedCatalogIsFlushedEverywhere(t *testing.T) {
	cluster := labtest.Start(t, 0)
	conn, err := pgx.Connect(t.Context(), cluster.Primary().DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'; CREATE VIEW v AS SELECT f(); CREATE VIEW w AS SELECT * FROM v`)

	s := newStand(t)
	s.over(cluster)
	s.startBus()
	nc := s.joinBus()
	flushes := make(chan bus.Flush, 100)
	if _, err := bus.Subscribe(nc, bus.SubjectVerdictFlush, nil, func(m bus.Flush) { flushes <- m }); err != nil {
		t.Fatal(err)
	}
	s.start("1")
	s.start("2")
	c := s.client()
	connected(t, c, 2)
	s.onBus("1", nc)
	s.onBus("2", nc)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}

	until(t, "a view over a view of a stable function reads", func() bool {
		v, err := askDatabase(t, c, "SELECT * FROM w")
		return err == nil && v.Kind == verdict.Read
	})
	if v, err := askDatabase(t, c, "SELECT * FROM late"); err != nil || v.Kind != verdict.Write || !v.Passing {
		t.Fatalf("a table that does not exist: %+v, %v", v, err)
	}
	exec("CREATE TABLE late (id int)")
	until(t, "the new table is known", func() bool {
		v, err := askDatabase(t, c, "SELECT * FROM late")
		return err == nil && v.Kind == verdict.Read
	})

	for len(flushes) > 0 { // of the first reading
		<-flushes
	}
	before := uint64(time.Now().UnixMicro())
	exec("ALTER FUNCTION f() VOLATILE")
	for {
		select {
		case m := <-flushes:
			if m.Database != lab.Database || m.Generation < before {
				continue // a late one of the first reading
			}
		case <-time.After(patience):
			t.Fatal("no flush")
		}
		break
	}
	// Each of the two finds out, the second because of the first one's flush.
	for i := range 20 {
		text := fmt.Sprintf("SELECT * FROM w x%d", i)
		until(t, "the view is a write for both", func() bool {
			v, err := askDatabase(t, c, text)
			return err == nil && v.Kind == verdict.Write && v.Generation >= before
		})
	}

	s.over(cluster, "public.f")
	until(t, "the configuration is read again", func() bool {
		v, err := askDatabase(t, c, "SELECT * FROM w")
		return err == nil && v.Kind == verdict.Read
	})
}
