// The program pq does what users of database/sql with lib/pq do. See package clients.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lib/pq"
)

const schema = "client_pq"

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
	db, err := sql.Open("postgres", "") // libpq's environment variables
	if err != nil {
		return err
	}
	defer db.Close()
	for _, step := range []struct {
		name string
		do   func(context.Context, *sql.DB) error
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
	} {
		if err := step.do(ctx, db); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("ok", step.name)
	}
	return nil
}

// asker is a *sql.DB, *sql.Conn or *sql.Tx.
type asker interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// statements executes each of them.
func statements(ctx context.Context, on asker, all ...string) error {
	for _, s := range all {
		if _, err := on.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// expect asks for one number.
func expect(ctx context.Context, on asker, want int, query string, args ...any) error {
	var got int
	if err := on.QueryRowContext(ctx, query, args...).Scan(&got); err != nil {
		return fmt.Errorf("%s %v: %w", query, args, err)
	}
	if got != want {
		return fmt.Errorf("%s %v gives %d, want %d", query, args, got, want)
	}
	return nil
}

func connect(ctx context.Context, db *sql.DB) error {
	return statements(ctx, db,
		"DROP SCHEMA IF EXISTS "+schema+" CASCADE; CREATE SCHEMA "+schema,
		"CREATE TABLE "+schema+".v (id int PRIMARY KEY, n int NOT NULL, word text)",
		"INSERT INTO "+schema+".v VALUES (1, 0)")
}

// reads uses a statement of its own name and the unnamed one.
func reads(ctx context.Context, db *sql.DB) error {
	const query = "SELECT $1::int + sum(n)::int FROM generate_series(1, 3) n"
	prepared, err := db.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer prepared.Close()
	for i := range 250 {
		var got int
		if err := prepared.QueryRowContext(ctx, i).Scan(&got); err != nil {
			return err
		}
		if got != i+6 {
			return fmt.Errorf("a prepared statement gives %d, want %d", got, i+6)
		}
		if err := expect(ctx, db, i+6, query, i); err != nil {
			return err
		}
	}
	return nil
}

func ownValues(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	write, err := conn.PrepareContext(ctx, "UPDATE "+schema+".v SET n = $1 WHERE id = 1")
	if err != nil {
		return err
	}
	defer write.Close()
	read, err := conn.PrepareContext(ctx, "SELECT n FROM "+schema+".v WHERE id = $1")
	if err != nil {
		return err
	}
	defer read.Close()
	for i := range 200 {
		if _, err := write.ExecContext(ctx, i); err != nil {
			return err
		}
		var n int
		if err := read.QueryRowContext(ctx, 1).Scan(&n); err != nil {
			return err
		}
		if n != i {
			return fmt.Errorf("reads %d after writing %d", n, i)
		}
	}
	return nil
}

func transaction(ctx context.Context, db *sql.DB) error {
	for i := range 20 {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE "+schema+".v SET n = $1 WHERE id = 1", 1000+i); err != nil {
			return err
		}
		if err := expect(ctx, tx, 1000+i, "SELECT n FROM "+schema+".v WHERE id = $1", 1); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := statements(ctx, tx, "UPDATE "+schema+".v SET n = -1"); err != nil {
		return err
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	readOnly, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return err
	}
	if err := expect(ctx, readOnly, 1019, "SELECT n FROM "+schema+".v WHERE id = $1", 1); err != nil {
		return err
	}
	if err := statements(ctx, readOnly, "UPDATE "+schema+".v SET n = -1"); sqlstate(err) != "25006" {
		return fmt.Errorf("a write in a read-only transaction is answered %v", err)
	}
	return readOnly.Rollback()
}

func savepoint(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := statements(ctx, tx, "UPDATE "+schema+".v SET n = 2000 WHERE id = 1", "SAVEPOINT here"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+schema+".v VALUES ($1, 0)", 1); sqlstate(err) != "23505" {
		return fmt.Errorf("a second row with the key is answered %v", err)
	}
	if err := statements(ctx, tx, "ROLLBACK TO SAVEPOINT here", "UPDATE "+schema+".v SET n = n + 1 WHERE id = 1", "RELEASE SAVEPOINT here"); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return expect(ctx, db, 2001, "SELECT n FROM "+schema+".v WHERE id = 1")
}

// batch sends several statements in one string, the only batch lib/pq knows.
func batch(ctx context.Context, db *sql.DB) error {
	for i := range 20 {
		rows, err := db.QueryContext(ctx, fmt.Sprintf("UPDATE %s.v SET n = %d WHERE id = 1; SELECT n FROM %s.v WHERE id = 1; SELECT n + 1 FROM %s.v WHERE id = 1", schema, i, schema, schema))
		if err != nil {
			return err
		}
		var got []int
		for more := true; more; more = rows.NextResultSet() {
			for rows.Next() {
				var n int
				if err := rows.Scan(&n); err != nil {
					return err
				}
				got = append(got, n)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		if len(got) != 2 || got[0] != i || got[1] != i+1 {
			return fmt.Errorf("a string of statements gives %v in round %d", got, i)
		}
	}
	return nil
}

func cancelled(ctx context.Context, db *sql.DB) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(inner, "INSERT INTO "+schema+".v SELECT 900, 0 FROM pg_sleep(50) -- pq sleeps")
		done <- err
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for asleep := false; !asleep; <-tick.C {
		if err := db.QueryRowContext(ctx, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%pq sleeps'").Scan(&asleep); err != nil {
			return err
		}
	}
	stop()
	if err := <-done; sqlstate(err) != "57014" && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("a cancelled statement is answered %v", err)
	}
	for left := 1; left > 0; <-tick.C { // the server has noticed
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%pq sleeps'").Scan(&left); err != nil {
			return err
		}
	}
	return expect(ctx, db, 0, "SELECT count(*) FROM "+schema+".v WHERE id = $1", 900)
}

// copies goes one way: lib/pq has no COPY TO.
func copies(ctx context.Context, db *sql.DB) error {
	const rows = 2000
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	in, err := tx.PrepareContext(ctx, pq.CopyInSchema(schema, "v", "id", "n", "word")) //nolint:staticcheck // most programs copy so
	if err != nil {
		return err
	}
	for i := range rows {
		if _, err := in.ExecContext(ctx, 10000+i, i, strings.Repeat("ä", i%50)); err != nil {
			return err
		}
	}
	if _, err := in.ExecContext(ctx); err != nil {
		return err
	}
	if err := errors.Join(in.Close(), tx.Commit()); err != nil {
		return err
	}
	return expect(ctx, db, rows, "SELECT count(*) FROM "+schema+".v WHERE id >= $1", 10000)
}

func listen(ctx context.Context, db *sql.DB) error {
	l := pq.NewListener("", time.Second, 10*time.Second, nil)
	defer l.Close()
	if err := l.Listen("pq_news"); err != nil {
		return err
	}
	for i := range 10 {
		payload := fmt.Sprint("number ", i)
		if err := statements(ctx, db, "NOTIFY pq_news, '"+payload+"'"); err != nil {
			return err
		}
		select {
		case n := <-l.Notify:
			if n == nil {
				return errors.New("the listener lost its connection")
			}
			if n.Channel != "pq_news" || n.Extra != payload {
				return fmt.Errorf("notified of %s %q, want %q", n.Channel, n.Extra, payload)
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the notification: %w", ctx.Err())
		}
	}
	return l.Unlisten("pq_news")
}

func temporary(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := statements(ctx, conn, "CREATE TEMP TABLE mine (n int)"); err != nil {
		return err
	}
	for i := range 20 {
		if _, err := conn.ExecContext(ctx, "INSERT INTO mine VALUES ($1)", i); err != nil {
			return err
		}
		if err := expect(ctx, conn, i+1, "SELECT count(*) FROM mine WHERE n >= $1", 0); err != nil {
			return err
		}
	}
	return statements(ctx, conn, "DROP TABLE mine")
}

func searchPath(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	names := []string{schema + "_a", schema + "_b"}
	for i, name := range names {
		if err := statements(ctx, conn, "DROP SCHEMA IF EXISTS "+name+" CASCADE", "CREATE SCHEMA "+name,
			"CREATE TABLE "+name+".t (n int)", fmt.Sprintf("INSERT INTO %s.t VALUES (%d)", name, i)); err != nil {
			return err
		}
	}
	if err := statements(ctx, conn, "SET search_path TO "+names[0]); err != nil {
		return err
	}
	prepared, err := conn.PrepareContext(ctx, "SELECT n FROM t WHERE n >= $1")
	if err != nil {
		return err
	}
	defer prepared.Close()
	for range 5 {
		for i, name := range names {
			if err := statements(ctx, conn, "SET search_path TO "+name); err != nil {
				return err
			}
			var n int
			if err := prepared.QueryRowContext(ctx, 0).Scan(&n); err != nil {
				return err
			}
			if n != i {
				return fmt.Errorf("a statement prepared before gives %d with the search_path %s, want %d", n, name, i)
			}
		}
	}
	return statements(ctx, conn, "RESET search_path")
}

func sqlstate(err error) string {
	var e *pq.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return ""
}
