// The program pgx does what users of pgx do, in each of its ways to execute a
// statement. See package clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const schema = "client_pgx"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	steps := []struct {
		name string
		do   func(context.Context, *pgx.Conn) error
	}{
		{"connect", connect},
		{"reads", reads},
		{"own values", ownValues},
		{"transaction", transaction},
		{"savepoint", savepoint},
		{"batch", batch},
		{"cancel", cancelled},
		{"copy", copies},
		{"listen", listen},
		{"temporary table", temporary},
		{"search_path", searchPath},
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		name := strings.ReplaceAll(mode.String(), " ", "_")
		for _, step := range steps {
			conn, err := open(ctx, mode)
			if err != nil {
				return fmt.Errorf("%s in mode %s: %w", step.name, name, err)
			}
			if err := step.do(ctx, conn); err != nil {
				return fmt.Errorf("%s in mode %s: %w", step.name, name, err)
			}
			if err := conn.Close(ctx); err != nil {
				return fmt.Errorf("%s in mode %s: close: %w", step.name, name, err)
			}
			fmt.Println("ok", step.name, name)
		}
	}
	return nil
}

func open(ctx context.Context, mode pgx.QueryExecMode) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig("") // libpq's environment variables
	if err != nil {
		return nil, err
	}
	cfg.DefaultQueryExecMode = mode
	return pgx.ConnectConfig(ctx, cfg)
}

// statements executes each of them.
func statements(ctx context.Context, conn *pgx.Conn, all ...string) error {
	for _, sql := range all {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// expect asks for one number.
func expect(ctx context.Context, conn *pgx.Conn, want int, sql string, args ...any) error {
	var got int
	if err := conn.QueryRow(ctx, sql, args...).Scan(&got); err != nil {
		return fmt.Errorf("%s %v: %w", sql, args, err)
	}
	if got != want {
		return fmt.Errorf("%s %v gives %d, want %d", sql, args, got, want)
	}
	return nil
}

func connect(ctx context.Context, conn *pgx.Conn) error {
	return statements(ctx, conn,
		"DROP SCHEMA IF EXISTS "+schema+" CASCADE", "CREATE SCHEMA "+schema,
		"CREATE TABLE "+schema+".v (id int PRIMARY KEY, n int NOT NULL, word text)")
}

func reads(ctx context.Context, conn *pgx.Conn) error {
	for i := range 500 {
		if err := expect(ctx, conn, i+6, "SELECT $1::int + sum(n)::int FROM generate_series(1, 3) n", i); err != nil {
			return err
		}
	}
	return nil
}

func ownValues(ctx context.Context, conn *pgx.Conn) error {
	for i := range 100 {
		if _, err := conn.Exec(ctx, "INSERT INTO "+schema+".v VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET n = excluded.n", i); err != nil {
			return err
		}
		if err := expect(ctx, conn, i, "SELECT n FROM "+schema+".v WHERE id = $1", 1); err != nil {
			return err
		}
	}
	return nil
}

func transaction(ctx context.Context, conn *pgx.Conn) error {
	const read = "SELECT n FROM " + schema + ".v WHERE id = $1"
	for i := range 20 {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE "+schema+".v SET n = $1 WHERE id = 1", 1000+i); err != nil {
			return err
		}
		if err := expect(ctx, conn, 1000+i, read, 1); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		if err := expect(ctx, conn, 1000+i, read, 1); err != nil {
			return err
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE "+schema+".v SET n = -1"); err != nil {
		return err
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	return expect(ctx, conn, 1019, read, 1)
}

func savepoint(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE "+schema+".v SET n = 2000 WHERE id = 1"); err != nil {
		return err
	}
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := inner.Exec(ctx, "INSERT INTO "+schema+".v VALUES ($1, 0)", 1); sqlstate(err) != "23505" {
		return fmt.Errorf("a second row with the key is answered %v", err)
	}
	if _, err := inner.Exec(ctx, "SELECT 1"); sqlstate(err) != "25P02" {
		return fmt.Errorf("a statement in a failed transaction is answered %v", err)
	}
	if err := inner.Rollback(ctx); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE "+schema+".v SET n = n + $1 WHERE id = 1", 1); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	return expect(ctx, conn, 2001, "SELECT n FROM "+schema+".v WHERE id = 1")
}

func batch(ctx context.Context, conn *pgx.Conn) error {
	for round := range 10 {
		b := &pgx.Batch{}
		for i := range 20 {
			b.Queue("INSERT INTO "+schema+".v VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = excluded.n", 100+i, round)
		}
		b.Queue("SELECT count(*)::int FROM "+schema+".v WHERE id >= $1 AND n = $2", 100, round)
		results := conn.SendBatch(ctx, b)
		for range 20 {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		var n int
		if err := results.QueryRow().Scan(&n); err != nil {
			return err
		}
		if n != 20 {
			return fmt.Errorf("a batch sees %d of its 20 rows", n)
		}
		if err := results.Close(); err != nil {
			return err
		}
		// All of it reads.
		b = &pgx.Batch{}
		for i := range 5 {
			b.Queue("SELECT n FROM "+schema+".v WHERE id = $1", 100+i)
		}
		results = conn.SendBatch(ctx, b)
		for range 5 {
			if err := results.QueryRow().Scan(&n); err != nil {
				return err
			}
			if n != round {
				return fmt.Errorf("a batch of reads sees %d, written was %d", n, round)
			}
		}
		if err := results.Close(); err != nil {
			return err
		}
	}
	// A batch is one transaction: the error takes the row before it along.
	b := &pgx.Batch{}
	b.Queue("INSERT INTO "+schema+".v VALUES ($1, 0)", 500)
	b.Queue("INSERT INTO "+schema+".v VALUES ($1, 0)", 100)
	b.Queue("INSERT INTO "+schema+".v VALUES ($1, 0)", 501)
	if err := conn.SendBatch(ctx, b).Close(); sqlstate(err) != "23505" {
		return fmt.Errorf("a batch with a second row of one key is answered %v", err)
	}
	return expect(ctx, conn, 0, "SELECT count(*)::int FROM "+schema+".v WHERE id >= $1", 500)
}

func cancelled(ctx context.Context, conn *pgx.Conn) error {
	watcher, err := open(ctx, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	defer watcher.Close(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "INSERT INTO "+schema+".v SELECT 900, 0 FROM pg_sleep(50) -- pgx sleeps")
		done <- err
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for asleep := false; !asleep; <-tick.C {
		if err := watcher.QueryRow(ctx, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%pgx sleeps'").Scan(&asleep); err != nil {
			return err
		}
	}
	if err := conn.PgConn().CancelRequest(ctx); err != nil {
		return err
	}
	if err := <-done; sqlstate(err) != "57014" {
		return fmt.Errorf("a cancelled statement is answered %v", err)
	}
	return expect(ctx, conn, 0, "SELECT count(*)::int FROM "+schema+".v WHERE id = $1", 900)
}

func copies(ctx context.Context, conn *pgx.Conn) error {
	const rows = 2000
	n, err := conn.CopyFrom(ctx, pgx.Identifier{schema, "v"}, []string{"id", "n", "word"}, pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
		return []any{10000 + i, i, strings.Repeat("ä", i%50)}, nil
	}))
	if err != nil || n != rows {
		return fmt.Errorf("copied in %d of %d rows: %w", n, rows, err)
	}
	var text strings.Builder
	tag, err := conn.PgConn().CopyTo(ctx, &text, "COPY (SELECT id, n, word FROM "+schema+".v WHERE id >= 10000 ORDER BY id) TO STDOUT")
	if err != nil || tag.RowsAffected() != rows {
		return fmt.Errorf("copied out %d of %d rows: %w", tag.RowsAffected(), rows, err)
	}
	if got := strings.Count(text.String(), "\n"); got != rows {
		return fmt.Errorf("copied out %d lines of %d", got, rows)
	}
	broken := errors.New("no more rows")
	_, err = conn.CopyFrom(ctx, pgx.Identifier{schema, "v"}, []string{"id", "n"}, pgx.CopyFromFunc(func() ([]any, error) { return nil, broken }))
	if !errors.Is(err, broken) && sqlstate(err) != "57014" {
		return fmt.Errorf("a copy that the client gives up is answered %v", err)
	}
	return expect(ctx, conn, rows, "SELECT count(*)::int FROM "+schema+".v WHERE id >= $1", 10000)
}

func listen(ctx context.Context, conn *pgx.Conn) error {
	if err := statements(ctx, conn, "LISTEN pgx_news"); err != nil {
		return err
	}
	sender, err := open(ctx, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	defer sender.Close(ctx)
	for i := range 10 {
		payload := fmt.Sprint("number ", i)
		if _, err := sender.Exec(ctx, "SELECT pg_notify('pgx_news', $1)", payload); err != nil {
			return err
		}
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel != "pgx_news" || n.Payload != payload {
			return fmt.Errorf("notified of %s %q, want %q", n.Channel, n.Payload, payload)
		}
	}
	return statements(ctx, conn, "UNLISTEN pgx_news")
}

func temporary(ctx context.Context, conn *pgx.Conn) error {
	if err := statements(ctx, conn, "CREATE TEMP TABLE mine (n int)"); err != nil {
		return err
	}
	for i := range 20 {
		if _, err := conn.Exec(ctx, "INSERT INTO mine VALUES ($1)", i); err != nil {
			return err
		}
		if err := expect(ctx, conn, i+1, "SELECT count(*)::int FROM mine WHERE n >= $1", 0); err != nil {
			return err
		}
	}
	return nil // the session's end drops it
}

func searchPath(ctx context.Context, conn *pgx.Conn) error {
	for i, name := range []string{schema + "_a", schema + "_b"} {
		if err := statements(ctx, conn, "DROP SCHEMA IF EXISTS "+name+" CASCADE", "CREATE SCHEMA "+name,
			"CREATE TABLE "+name+".t (n int)", fmt.Sprintf("INSERT INTO %s.t VALUES (%d)", name, i)); err != nil {
			return err
		}
	}
	for range 5 {
		for i, name := range []string{schema + "_a", schema + "_b"} {
			if err := statements(ctx, conn, "SET search_path TO "+name); err != nil {
				return err
			}
			if err := expect(ctx, conn, i, "SELECT n FROM t WHERE n >= $1", 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func sqlstate(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
