package judge

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
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
			{functions, sessionFunctions},
			{functions, harmlessFunctions},
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

// volatileReads are volatile by their declaration and harmless by review: they
// answer from clocks, files and chance, change nothing, and nobody can rely on
// their answer.
var volatileReads = words(`clock_timestamp gen_random_uuid timeofday pg_sleep pg_sleep_for pg_sleep_until
	pg_database_size pg_indexes_size pg_relation_size pg_table_size pg_total_relation_size
	pg_partition_ancestors pg_partition_tree`)

// suspects are names that rule 26 keeps from replicas although PostgreSQL calls
// some of these functions stable.
const suspects = `SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND (
	proname ~ '^(pg_stat_|pg_advisory|pg_try_advisory|lo_|txid_|pg_current_|pg_replication_|pg_logical_|pg_wal_replay|pg_create_|pg_drop_|pg_ls_|pg_read_|binary_upgrade_|pg_event_trigger_)'
	OR proname ~ '_to_xml|^(ts_stat|ts_rewrite|set_config|setseed|nextval|currval|lastval|setval|pg_notify|pg_promote|pg_backend_pid|pg_is_in_recovery|current_setting|random|pg_export_snapshot|pg_terminate_backend|pg_cancel_backend|pg_reload_conf|pg_rotate_logfile|pg_my_temp_schema|pg_is_other_temp_schema|pg_listening_channels|pg_lock_status|pg_cursor|pg_prepared_statement|pg_prepared_xact|pg_show_all_settings)$')`

// testFunctions checks the list of functions that read against pg_proc.
func testFunctions(ctx context.Context, t *testing.T, dsn string) {
	volatile := column(ctx, t, dsn, `SELECT DISTINCT proname::text FROM pg_proc
		WHERE pronamespace = 'pg_catalog'::regnamespace AND provolatile = 'v'`)
	for _, name := range volatile {
		if readFunctions[name] && !volatileReads[name] {
			t.Errorf("%s is volatile, but listed as a read", name)
		}
	}
	for name := range maps.Keys(volatileReads) {
		if !slices.Contains(volatile, name) {
			t.Errorf("%s needs no exception, it is not volatile", name)
		}
	}
	found := column(ctx, t, dsn, suspects)
	if len(found) < 100 {
		t.Fatalf("only %d suspects: the query is wrong", len(found))
	}
	for _, name := range found {
		if readFunctions[name] {
			t.Errorf("%s must not be a read", name)
		}
	}
	// Whoever could change something only takes and gives internal values, or is a
	// trigger: none of it can be called in a query, and none of it is listed.
	internal := column(ctx, t, dsn, `SELECT DISTINCT proname::text FROM pg_proc
		WHERE pronamespace = 'pg_catalog'::regnamespace AND (prorettype IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
		OR proargtypes::oid[] @> ARRAY['internal'::regtype::oid])`)
	for _, name := range internal {
		if readFunctions[name] {
			t.Errorf("%s is an internal function, but listed as a read", name)
		}
	}
}
