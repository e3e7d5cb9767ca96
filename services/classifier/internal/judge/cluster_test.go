package judge

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/builtin"
)

// TestAgainstPostgreSQL holds the lists against a real primary and its replica.
func TestAgainstPostgreSQL(t *testing.T) {
	cluster := labtest.Start(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	connect := func(dsn string) *pgconn.PgConn {
		c, err := pgconn.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
	primary, replica := connect(cluster.Primary().DSN()), connect(cluster.Replica(1).DSN())
	fixture, err := os.ReadFile("testdata/fixture.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(ctx, primary, string(fixture)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WaitCaughtUp(ctx); err != nil {
		t.Fatal(err)
	}

	var major int
	if _, err := fmt.Sscanf(primary.ParameterStatus("server_version"), "%d", &major); err != nil {
		t.Fatal(err)
	}

	t.Run("reads run on a replica", func(t *testing.T) {
		for _, e := range table(t) {
			if e.kind != verdict.Read || e.since > major {
				continue
			}
			want, err := run(ctx, primary, e.text)
			if err != nil {
				t.Errorf("line %d: %s\n\tdoes not run on the primary: %v", e.line, e.text, err)
				continue
			}
			got, err := run(ctx, replica, e.text)
			if err != nil {
				t.Errorf("line %d: %s\n\tdoes not run on a replica: %v", e.line, e.text, err)
				continue
			}
			if !e.volatile && got != want {
				t.Errorf("line %d: %s\n\tanswers %s on the replica, %s on the primary", e.line, e.text, got, want)
			}
		}
	})
	t.Run("functions", func(t *testing.T) { testFunctions(ctx, t, cluster.Primary().DSN()) })
	t.Run("names", func(t *testing.T) {
		const functions = "SELECT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
		for _, check := range []struct {
			query string
			list  map[string]bool
		}{
			{"SELECT oprname::text FROM pg_operator", operators},
			{"SELECT typname::text FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace", types},
			{"SELECT relname::text FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace", catalogs},
			{functions, readFunctions},
		} {
			exist := column(ctx, t, cluster.Primary().DSN(), check.query)
			for name := range check.list {
				if !slices.Contains(exist, name) {
					t.Errorf("%s is listed but is not PostgreSQL's", name)
				}
			}
		}
		for _, name := range column(ctx, t, cluster.Primary().DSN(), "SELECT DISTINCT oprname::text FROM pg_operator") {
			if !operators[name] {
				t.Errorf("operator %s is PostgreSQL's but not listed", name)
			}
		}
	})
}

// run gives the results of a simple-query string as sorted rows of text.
func run(ctx context.Context, c *pgconn.PgConn, sql string) (string, error) {
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range results {
		rows := make([]string, len(r.Rows))
		for i, row := range r.Rows {
			rows[i] = fmt.Sprintf("%q", row)
		}
		slices.Sort(rows)
		fmt.Fprintf(&b, "%s %s\n", r.CommandTag, rows)
	}
	return b.String(), nil
}

func column(ctx context.Context, t *testing.T, dsn, query string) []string {
	t.Helper()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	rows, err := c.Query(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// testFunctions holds the list of functions that read against the reviewed table:
// all overloads must read.
func testFunctions(ctx context.Context, t *testing.T, dsn string) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	rows, err := c.Query(ctx, `SELECT proname::text, replace(oidvectortypes(proargtypes), ', ', ','), provolatile::text
		FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	type function struct{ Name, Types, Volatility string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[function])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if b := builtin.Lookup(f.Name, f.Types, f.Volatility[0]); readFunctions[f.Name] && !b.Reads() && f.Name != "age" {
			t.Errorf("%s(%s) is listed as a read: %s", f.Name, f.Types, b.Reason)
		}
	}
}
