package workload

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// accountsPerBranch is pgbench's.
const accountsPerBranch = 100_000

// Rows is how many rows pgbench_accounts has at a scale.
func Rows(scale int) int64 { return int64(scale) * accountsPerBranch }

// Fill makes the tables anew in the connection's database: pgbench's own (as pgbench -i
// does, so that pgbench can be pointed at them too), bench_wide and bench_marks.
func Fill(ctx context.Context, conn *pgx.Conn, scale int) error {
	statements := []string{
		"DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history, bench_wide, bench_marks",
		"CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor = 100)",
		"CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor = 100)",
		"CREATE TABLE pgbench_accounts (aid int NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor = 100)",
		"CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))",
		fmt.Sprintf("INSERT INTO pgbench_branches SELECT b, 0, NULL FROM generate_series(1, %d) b", scale),
		fmt.Sprintf("INSERT INTO pgbench_tellers SELECT t, (t - 1) / 10 + 1, 0, NULL FROM generate_series(1, %d) t", 10*scale),
		fmt.Sprintf("INSERT INTO pgbench_accounts SELECT a, (a - 1) / %d + 1, 0, '' FROM generate_series(1, %d) a", accountsPerBranch, Rows(scale)),
		"ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid)",
		"ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid)",
		"ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)",
		wideTable(),
		"CREATE TABLE bench_marks (id int PRIMARY KEY, value bigint) WITH (fillfactor = 10)",
		fmt.Sprintf("INSERT INTO bench_marks SELECT id, 0 FROM generate_series(1, %d) id", marks),
	}
	for _, table := range []string{"pgbench_accounts", "pgbench_branches", "pgbench_tellers", "bench_wide", "bench_marks"} {
		statements = append(statements, "VACUUM ANALYZE "+table)
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("fill the database (%.60s): %w", s, err)
		}
	}
	return nil
}

// wideTable has 20 columns of 100 characters.
func wideTable() string {
	s := "CREATE TABLE bench_wide AS SELECT id"
	for i := range 20 {
		s += fmt.Sprintf(", repeat(chr(97 + (id + %d) %% 26), 100) AS c%d", i, i)
	}
	return s + fmt.Sprintf(" FROM generate_series(1, %d) id; ALTER TABLE bench_wide ADD PRIMARY KEY (id)", wideRows)
}
