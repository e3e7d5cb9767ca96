package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// wire is a session seen as messages.
type wire struct {
	t     testing.TB
	front *pgproto3.Frontend
	conn  *pgconn.HijackedConn
}

func hijack(t testing.TB, c *client) *wire {
	t.Helper()
	h, err := c.conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Conn.Close() })
	if err := h.Conn.SetDeadline(time.Now().Add(10 * patience)); err != nil {
		t.Fatal(err)
	}
	return &wire{t, h.Frontend, h}
}

// query sends one string of statements and gives every message of the answer, as
// one line of text each.
func (w *wire) query(sql string) []string {
	w.t.Helper()
	return w.send([]pgproto3.FrontendMessage{&pgproto3.Query{String: sql}}, 1)
}

// send sends messages at once and gives every message of the answer up to the given
// number of ReadyForQuery, as one line of text each.
func (w *wire) send(messages []pgproto3.FrontendMessage, ready int) []string {
	w.t.Helper()
	answer, err := w.exchange(messages, ready)
	if err != nil {
		w.t.Fatalf("%+v: %v after %q", messages, err, answer)
	}
	return answer
}

// last sends messages at once that end the connection, and gives every message of the answer.
func (w *wire) last(messages []pgproto3.FrontendMessage) []string {
	w.t.Helper()
	answer, err := w.exchange(messages, len(messages)+1)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		w.t.Fatalf("%+v: %v after %q, want the end of the connection", messages, err, answer)
	}
	return answer
}

// exchange sends messages and reads answers until there have been so many ReadyForQuery, or
// the connection fails.
func (w *wire) exchange(messages []pgproto3.FrontendMessage, ready int) (answer []string, err error) {
	w.t.Helper()
	for _, m := range messages {
		w.front.Send(m)
	}
	if err := w.front.Flush(); err != nil {
		return nil, err
	}
	for ready > 0 {
		m, err := w.front.Receive()
		if err != nil {
			return answer, err
		}
		if d, ok := m.(*pgproto3.RowDescription); ok {
			for i := range d.Fields {
				d.Fields[i].TableOID = min(d.Fields[i].TableOID, 1) // differs between databases
			}
		}
		b, err := m.(interface{ Encode([]byte) ([]byte, error) }).Encode(nil)
		if err != nil {
			w.t.Fatalf("encode %T: %v", m, err)
		}
		answer = append(answer, fmt.Sprintf("%c %q", b[0], bytes.ReplaceAll(b[5:], []byte{0}, []byte("|"))))
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			ready--
		}
	}
	return answer, nil
}

// compare runs statements one after the other on a session through pgpilot and on
// one of the primary itself, and compares what comes back, byte for byte. Each
// session works in a database of its own, since both write.
func (r *rig) compare(t *testing.T, statements []string) {
	t.Helper()
	through, straight := r.twins(t)
	for _, sql := range statements {
		want, got := straight.query(sql), through.query(sql)
		// Where in the server's source an error was raised is not known of one that the
		// router has put into the client's words.
		if w, g := place.ReplaceAllString(strings.Join(want, "\n"), ""), place.ReplaceAllString(strings.Join(got, "\n"), ""); w != g {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", sql, w, g)
		}
	}
}

// twins opens a session through pgpilot and one on the primary itself.
func (r *rig) twins(t *testing.T) (through, straight *wire) {
	t.Helper()
	pilot, err := r.dial("dbname=same_pilot")
	if err != nil {
		t.Fatal(err)
	}
	server, err := dial(t, r.Lab.Primary().DSNFor(lab.User, lab.Password, "same_direct"))
	if err != nil {
		t.Fatal(err)
	}
	return hijack(t, pilot), hijack(t, server)
}

// newSameRig makes two databases that are equal but for their oids.
func newSameRig(t *testing.T) *rig {
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	for _, name := range []string{"same_pilot", "same_direct"} {
		su.must("CREATE DATABASE " + name + " OWNER pgpilot")
		c, err := dial(t, cluster.Primary().DSNFor(lab.User, lab.Password, name))
		if err != nil {
			t.Fatal(err)
		}
		c.must(`CREATE TABLE fruit (id int PRIMARY KEY, name text NOT NULL UNIQUE, price numeric(8,2) CHECK (price > 0));
			INSERT INTO fruit VALUES (1, 'apple', 1.5), (2, 'pear', 2), (3, 'quince', 9.99);
			CREATE TABLE basket (fruit int REFERENCES fruit, n int DEFAULT 1);
			INSERT INTO basket VALUES (1, 2);
			CREATE TYPE mood AS ENUM ('sad', 'ok');
			CREATE DOMAIN small AS int CHECK (VALUE < 10);
			CREATE VIEW cheap AS SELECT * FROM fruit WHERE price < 3`)
	}
	r := newRig(t, cluster, nil)
	r.caughtUp()
	return r
}

func TestErrorsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	r.compare(t, []string{
		"SELEC 1",
		"SELECT 1 +",
		"SELECT * FROM nowhere",
		"SELECT nothing FROM fruit",
		"SELECT f.id FROM fruit f WHERE g.id = 1",
		"SELECT no_such_function(1)",
		"SELECT 1 / 0",
		"SELECT 1/(price - price) FROM fruit",
		"SELECT 'abc'::int",
		"SELECT 99999999999::int",
		"SELECT 'happy'::mood",
		"SELECT 12::small",
		"SELECT id, count(*) FROM fruit",
		"SELECT (SELECT id FROM fruit)",
		"SELECT name FROM fruit ORDER BY 2",
		"SELECT $1",
		"SELECT 'unterminated",
		"SELECT E'\\u12'",
		"SELECT '{\"a\"'::json",
		"INSERT INTO fruit VALUES (1, 'fig', 1)",
		"INSERT INTO fruit VALUES (4, 'pear', 1)",
		"INSERT INTO fruit VALUES (4, 'fig', -1)",
		"INSERT INTO fruit VALUES (4, NULL, 1)",
		"INSERT INTO fruit VALUES (4, 'fig', 123456789)",
		"INSERT INTO fruit (id, id) VALUES (1, 2)",
		"INSERT INTO basket VALUES (77)",
		"DELETE FROM fruit WHERE id = 1",
		"UPDATE cheap SET nothing = 1",
		"CREATE TABLE fruit (a int)",
		"DROP TABLE fruit",
		"DROP TABLE nowhere",
		"ALTER TABLE fruit DROP COLUMN nothing",
		"TRUNCATE fruit",
		"SELECT pg_read_file('/etc/passwd')",
		"SET no_such_parameter = 1",
		"SET work_mem = 'much'",
		"SET ROLE nobody",
		"COPY nowhere TO STDOUT",
		"COPY fruit TO '/tmp/fruit'",
		"EXECUTE nothing",
		"FETCH 1 FROM nothing",
		"ROLLBACK TO SAVEPOINT nothing",
		"SAVEPOINT s",
		"BEGIN; SELECT 1; SELECT 1/0; SELECT 2",
		"SELECT 3",
		"COMMIT",
		"SELECT 1; SELECT 1/0; SELECT 2",
		"INSERT INTO fruit VALUES (5, 'plum', 1); SELECT 1/0",
		"SELECT count(*) FROM fruit",
		"DO $$BEGIN RAISE EXCEPTION 'own' USING ERRCODE = 'P0042', DETAIL = 'd', HINT = 'h', TABLE = 't', COLUMN = 'c', CONSTRAINT = 'k', DATATYPE = 'y', SCHEMA = 's'; END$$",
		"VACUUM fruit; SELECT 1",
		"LISTEN 1",
	})
}

func TestAnswersAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	r.compare(t, []string{
		"",
		";",
		";;",
		"-- only a comment",
		"/* only */ /* comments */",
		"SELECT 1",
		"SELECT 1;",
		"SELECT 1; SELECT 2",
		"SELECT 1;; SELECT 2;",
		"SELECT NULL",
		"SELECT ''",
		"SELECT",
		"SELECT FROM fruit",
		"SELECT 1 AS a, 'b' AS b, 1.5, now() IS NOT NULL, ARRAY[1,2], '{\"a\": 1}'::jsonb, '\\x00ff'::bytea",
		"SELECT * FROM fruit ORDER BY id",
		"SELECT * FROM fruit WHERE id = 2",
		"SELECT * FROM fruit WHERE false",
		"SELECT * FROM cheap ORDER BY id",
		"TABLE fruit",
		"VALUES (1, 'a'), (2, 'b')",
		"WITH f AS (SELECT * FROM fruit) SELECT count(*) FROM f",
		"SELECT repeat('x', 100000)",
		"SELECT g, repeat('y', g) FROM generate_series(1, 500) g",
		"SELECT 'naïve ☃'",
		"EXPLAIN (COSTS OFF) SELECT * FROM fruit WHERE id = 1",
		"SHOW server_version",
		"SHOW transaction_read_only",
		"SELECT pg_is_in_recovery()",
		"SELECT current_user, session_user",
		"SELECT current_setting('search_path')",
		"INSERT INTO fruit VALUES (10, 'fig', 3)",
		"INSERT INTO fruit VALUES (11, 'lime', 3), (12, 'lemon', 4) RETURNING id, name",
		"UPDATE fruit SET price = price + 1 WHERE id > 9",
		"DELETE FROM fruit WHERE id = 12 RETURNING *",
		"SELECT count(*) FROM fruit",
		"INSERT INTO fruit VALUES (13, 'a', 1); SELECT name FROM fruit WHERE id = 13; DELETE FROM fruit WHERE id = 13",
		"WITH d AS (DELETE FROM fruit WHERE id = 11 RETURNING id) SELECT * FROM d",
		"COPY fruit TO STDOUT",
		"COPY (SELECT name FROM fruit ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER)",
		"COPY fruit TO STDOUT (FORMAT binary)",
		"COPY fruit TO STDOUT; SELECT 1",
		"DO $$BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; RAISE INFO 'an info'; END$$",
		"DROP TABLE IF EXISTS nowhere",
		"CREATE TABLE IF NOT EXISTS fruit (a int)",
		"CREATE TABLE more AS SELECT * FROM fruit",
		"SELECT count(*) FROM more",
		"SELECT * INTO other FROM more",
		"ALTER TABLE more ADD COLUMN extra int DEFAULT 7",
		"SELECT * FROM more ORDER BY id LIMIT 1",
		"TRUNCATE more",
		"DROP TABLE more, other",
		"BEGIN",
		"BEGIN",
		"SELECT 1",
		"INSERT INTO basket VALUES (2, 5)",
		"SELECT * FROM basket ORDER BY 1",
		"SAVEPOINT s",
		"SELECT 1/0",
		"SELECT 1",
		"ROLLBACK TO s",
		"SELECT 'alive'",
		"RELEASE s",
		"COMMIT",
		"COMMIT",
		"ROLLBACK",
		"BEGIN READ ONLY; SELECT * FROM fruit WHERE id = 1; COMMIT",
		"BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; ROLLBACK",
		"BEGIN; SELECT 1/0",
		"COMMIT",
		"BEGIN; DECLARE c CURSOR FOR SELECT id FROM fruit ORDER BY id",
		"FETCH 2 FROM c",
		"MOVE 1 FROM c",
		"CLOSE c; COMMIT",
		"SET DateStyle = 'German'",
		"SHOW DateStyle",
		"SELECT '2024-02-03'::date",
		"SET TIME ZONE 'Asia/Tokyo'",
		"SET application_name = 'renamed'",
		"RESET ALL",
		"SHOW TimeZone",
		"SET LOCAL work_mem = '1MB'",
		"SET client_encoding = 'LATIN1'",
		"SELECT 'caf' || chr(233)",
		"SET client_encoding = 'UTF8'",
		"PREPARE p (int) AS SELECT name FROM fruit WHERE id = $1",
		"EXECUTE p(1)",
		"/* of p */ DEALLOCATE PREPARE p",
		"PREPARE p (int) AS SELECT name FROM fruit WHERE id = $1",
		"-- all\nDeallocate/* really */Prepare All",
		"EXECUTE p(1)",
		"CREATE TEMP TABLE scratch (a int); INSERT INTO scratch VALUES (1), (2); SELECT * FROM scratch",
		"SELECT sum(a) FROM scratch",
		"DISCARD ALL",
		"LOCK TABLE fruit",
		"VACUUM fruit",
		"ANALYZE fruit",
		"CHECKPOINT",
		"COMMENT ON TABLE fruit IS 'eat'",
		"GRANT SELECT ON fruit TO PUBLIC",
		"NOTIFY nobody_listens",
	})
}

// place matches an error's file, line and routine.
var place = regexp.MustCompile(`\|F[^|]*\|L[^|]*\|R[^|]*`)

func TestExtendedProtocolIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	type batch = []pgproto3.FrontendMessage
	parse := func(name, sql string) *pgproto3.Parse { return &pgproto3.Parse{Name: name, Query: sql} }
	bind := func(portal, name string, values ...string) *pgproto3.Bind {
		b := &pgproto3.Bind{DestinationPortal: portal, PreparedStatement: name}
		for _, v := range values {
			b.Parameters = append(b.Parameters, []byte(v))
		}
		return b
	}
	describe := func(kind byte, name string) *pgproto3.Describe {
		return &pgproto3.Describe{ObjectType: kind, Name: name}
	}
	execute := func(portal string, rows uint32) *pgproto3.Execute {
		return &pgproto3.Execute{Portal: portal, MaxRows: rows}
	}
	closing := func(kind byte, name string) *pgproto3.Close { return &pgproto3.Close{ObjectType: kind, Name: name} }
	sync, flush := &pgproto3.Sync{}, &pgproto3.Flush{}
	query := func(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }

	for _, c := range []struct {
		name  string
		ready int // how many ReadyForQuery the answer has
		batch batch
	}{
		{"sync alone", 1, batch{sync}},
		{"two syncs", 2, batch{sync, sync}},
		{"a statement", 1, batch{parse("", "SELECT name FROM fruit WHERE id = $1"), bind("", "", "2"), describe('P', ""), execute("", 0), sync}},
		{"the unnamed statement again", 1, batch{bind("", "", "3"), execute("", 0), sync}},
		{"a named statement", 1, batch{parse("s1", "SELECT id, price FROM fruit WHERE price < $1 ORDER BY id"), describe('S', "s1"), sync}},
		{"executed twice", 1, batch{bind("", "s1", "3"), execute("", 0), bind("", "s1", "1"), execute("", 0), sync}},
		{"in another batch, flushed", 1, batch{bind("", "s1", "9"), flush, execute("", 0), flush, sync}},
		{"rows in parts", 1, batch{bind("p", "s1", "99"), execute("p", 1), execute("p", 1), execute("p", 0), sync}},
		{"a portal ends with its batch", 1, batch{bind("q", "s1", "99"), sync}},
		{"and is gone", 1, batch{execute("q", 0), sync}},
		{"a name twice", 1, batch{parse("s1", "SELECT 1"), bind("", "s1"), execute("", 0), sync}},
		{"close and parse again", 1, batch{closing('S', "s1"), parse("s1", "SELECT 1"), bind("", "s1"), describe('P', ""), execute("", 0), sync}},
		{"close what is not there", 1, batch{closing('S', "nothing"), closing('P', "nothing"), sync}},
		{"an error, and what follows is skipped", 1, batch{parse("", "SELECT 1/$1::int"), bind("", "", "0"), execute("", 0), bind("", "s1"), execute("", 0), parse("never", "SELECT 1"), sync}},
		{"and was not done", 1, batch{describe('S', "never"), sync}},
		{"errors in two batches at once", 2, batch{parse("", "SELEC"), describe('S', ""), sync, parse("", "SELECT 7"), bind("", ""), execute("", 0), sync}},
		{"an error between good batches", 3, batch{bind("", "s1"), execute("", 0), sync, bind("", "no such statement"), execute("", 0), sync, bind("", "s1"), execute("", 0), sync}},
		{"a bad parameter", 1, batch{parse("", "SELECT $1::int"), bind("", "", "abc"), execute("", 0), sync}},
		{"too many parameters", 1, batch{bind("", "s1", "1"), execute("", 0), sync}},
		{"nothing to do", 1, batch{parse("", ""), bind("", ""), describe('P', ""), execute("", 0), sync}},
		{"two statements in one parse", 1, batch{parse("", "SELECT 1; SELECT 2"), sync}},
		{"a batch is a transaction", 1, batch{
			parse("", "INSERT INTO fruit VALUES (50, 'guava', 1)"), bind("", ""), execute("", 0),
			parse("", "INSERT INTO fruit VALUES (50, 'guava', 1)"), bind("", ""), execute("", 0), sync}},
		{"of which nothing is left", 1, batch{parse("", "SELECT count(*) FROM fruit WHERE id = 50"), bind("", ""), execute("", 0), sync}},
		{"a transaction over batches", 3, batch{
			parse("", "BEGIN"), bind("", ""), execute("", 0), sync,
			parse("", "INSERT INTO fruit VALUES (51, 'kiwi', 1) RETURNING id"), bind("", ""), describe('P', ""), execute("", 0), sync,
			parse("", "SELECT 1/0"), bind("", ""), execute("", 0), sync}},
		{"has failed", 1, batch{parse("", "SELECT 1"), sync}},
		{"and ends", 1, batch{parse("", "COMMIT"), bind("", ""), execute("", 0), sync}},
		{"simple and extended by turns", 4, batch{query("SELECT 1"), bind("", "s1"), execute("", 0), sync, query("SELECT 1/0; SELECT 2"), bind("", "s1"), execute("", 0), sync}},
		{"a simple query closes the unnamed statement", 3, batch{parse("", "SELECT 5"), sync, query("SELECT 6"), bind("", ""), execute("", 0), sync}},
		{"copy out", 1, batch{parse("", "COPY fruit TO STDOUT"), bind("", ""), execute("", 0), sync}},
		{"copy in", 1, batch{parse("", "COPY basket FROM STDIN"), bind("", ""), execute("", 0), &pgproto3.CopyData{Data: []byte("1\t7\n")}, &pgproto3.CopyDone{}, sync}},
		{"copy in, with a sync too early", 1, batch{parse("", "COPY basket FROM STDIN"), bind("", ""), execute("", 0), sync, &pgproto3.CopyData{Data: []byte("2\t8\n")}, &pgproto3.CopyDone{}, sync}},
		{"copy in, failed by the client", 1, batch{parse("", "COPY basket FROM STDIN"), bind("", ""), execute("", 0), &pgproto3.CopyData{Data: []byte("1\t7\n")}, &pgproto3.CopyFail{Message: "enough"}, sync}},
		{"copy in, refused", 1, batch{parse("", "COPY basket FROM STDIN"), bind("", ""), execute("", 0), &pgproto3.CopyData{Data: []byte("x\ty\n")}, &pgproto3.CopyDone{}, sync}},
		{"copy in, refused, the next sequence behind it", 2, batch{parse("", "COPY basket FROM STDIN"), bind("", ""), execute("", 0), &pgproto3.CopyData{Data: []byte("x\ty\n")}, parse("never", "SELECT 1"), query("SELECT 1"), sync, bind("", "never"), sync}},
		{"simple copy in, refused, a sequence and a query behind it", 3, batch{query("COPY basket FROM STDIN"), &pgproto3.CopyData{Data: []byte("x\ty\n")}, parse("", "SELECT 5"), bind("", ""), execute("", 0), sync, query("SELECT 1; SELECT 2")}},
		{"the same, the end of the data sent, too", 3, batch{query("COPY basket FROM STDIN"), &pgproto3.CopyData{Data: []byte("x\ty\n")}, &pgproto3.CopyDone{}, parse("", "SELECT 5"), bind("", ""), execute("", 0), sync, query("SELECT 1; SELECT 2")}},
		{"simple copy in, refused, a statement behind it that is not there", 3, batch{query("COPY basket FROM STDIN"), &pgproto3.CopyData{Data: []byte("x\ty\n")}, execute("", 0), sync, query("SELECT 1; SELECT 2")}},
		{"simple copy in, refused, syncs and a query behind it", 4, batch{query("COPY basket FROM STDIN"), &pgproto3.CopyData{Data: []byte("x\ty\n")}, sync, flush, sync, query("SET lock_timeout = 77")}},
		{"in a transaction", 4, batch{query("BEGIN"), query("COPY basket FROM STDIN"), &pgproto3.CopyData{Data: []byte("x\ty\n")}, query("SELECT 1"), query("ROLLBACK")}},
		{"simple copy in, several in one string", 1, batch{query("COPY basket FROM STDIN; SELECT 1; COPY basket FROM STDIN; SELECT 2; COPY basket FROM STDIN"), &pgproto3.CopyData{Data: []byte("1\t9\n")}, &pgproto3.CopyDone{}, &pgproto3.CopyData{Data: []byte("2\t9\n")}, &pgproto3.CopyDone{}, &pgproto3.CopyDone{}}},
		{"simple copy in, the second of them refused", 2, batch{query("COPY basket FROM STDIN; COPY basket FROM STDIN"), &pgproto3.CopyData{Data: []byte("1\t9\n")}, &pgproto3.CopyDone{}, &pgproto3.CopyData{Data: []byte("x\t9\n")}, query("SHOW lock_timeout")}},
		{"what they left", 1, batch{query("SELECT * FROM basket ORDER BY 1, 2")}},
		{"stray copy messages", 1, batch{&pgproto3.CopyData{Data: []byte("stray")}, &pgproto3.CopyDone{}, &pgproto3.CopyFail{Message: "stray"}, query("SELECT 1")}},
		{"a function call, of int4pl", 1, batch{&pgproto3.FunctionCall{Function: 177, ArgFormatCodes: []uint16{0}, Arguments: [][]byte{[]byte("1"), []byte("2")}}}},
		{"a statement executed by a query behind its parse", 1, batch{parse("s2", "SELECT 42"), query("EXECUTE s2")}},
		{"another, with a parameter, flushed", 1, batch{&pgproto3.Parse{Name: "S3", Query: "SELECT $1", ParameterOIDs: []uint32{23}}, flush, query(`EXECUTE "S3" (7)`)}},
		{"one that fails to parse, executed by a query", 1, batch{parse("s4", "SELEC"), query("EXECUTE s4"), sync}},
		{"and once more", 1, batch{query("EXECUTE s2")}},
		{"two names for one text, and too many parameters", 3, batch{parse("s5", "SELECT 43"), parse("s6", "SELECT 43"), sync, bind("", "s6", "1"), sync, closing('S', "s6"), sync}},
		{"DEALLOCATE with types that are none", 3, batch{
			&pgproto3.Parse{Name: "d1", Query: "DEALLOCATE s5", ParameterOIDs: []uint32{23, 0}}, sync,
			&pgproto3.Parse{Name: "d1", Query: "DEALLOCATE ALL", ParameterOIDs: []uint32{705}}, sync,
			&pgproto3.Parse{Name: "d1", Query: "DEALLOCATE s5", ParameterOIDs: []uint32{23}}, sync}},
		{"everything forgotten", 2, batch{query("DISCARD ALL"), bind("", "s1"), execute("", 0), sync}},
		{"forgotten by an earlier portal", 2, batch{
			parse("t1", "SELECT 11"), parse("", "DISCARD ALL"), bind("p1", ""), parse("", "SELECT 1"), bind("p2", ""), execute("p1", 0),
			parse("t1", "SELECT 12"), bind("", "t1"), execute("", 0), sync, bind("", "t1"), execute("", 0), sync}},
		{"forgotten by one in other words", 2, batch{
			parse("", "\f;DISCARD/**/ALL;"), bind("", ""), execute("", 0), parse("t1", "SELECT 13"), bind("", "t1"), execute("", 0), sync,
			bind("", "t1"), execute("", 0), sync}},
		{"where there is a session's state", 3, batch{
			query("SELECT pg_advisory_lock(8)"),
			parse("", "DEALLOCATE ALL"), bind("p1", ""), parse("", "SELECT 1"), bind("p2", ""), execute("p1", 0), execute("p2", 0),
			parse("t1", "SELECT 14"), parse("t2", "SELECT 15"), bind("", "t1"), execute("", 0), sync, bind("", "t2"), execute("", 0), sync}},
		{"and an error behind it", 2, batch{
			parse("", "DEALLOCATE PREPARE\fALL"), bind("p1", ""), parse("", "SELECT 1"), bind("p2", ""), execute("p1", 0),
			parse("t1", "SELECT 16"), bind("", "nothing"), execute("", 0), sync, bind("", "t1"), execute("", 0), sync}},
		{"all of it", 2, batch{query("DISCARD ALL"), bind("", "t1"), execute("", 0), sync}},
	} {
		want, got := straight.send(c.batch, c.ready), through.send(c.batch, c.ready)
		// Where in the server's source an error was raised is not known of one that the
		// router has put into the client's words.
		if w, g := place.ReplaceAllString(strings.Join(want, "\n"), ""), place.ReplaceAllString(strings.Join(got, "\n"), ""); w != g {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", c.name, w, g)
		}
	}
}
