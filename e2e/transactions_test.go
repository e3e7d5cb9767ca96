package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// What is said about a transaction before its first statement is answered by the router
// as by a server (rule 28).
func TestTransactionsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	r.compare(t, []string{
		"BEGIN", "COMMIT", "START TRANSACTION", "ROLLBACK", "begin work;", "", "END", "BEGIN", "ABORT",
		"BEGIN", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SHOW transaction_isolation", "SHOW transaction_read_only", "COMMIT AND CHAIN", "SHOW transaction_isolation", "ROLLBACK",
		"BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE", "SHOW transaction_deferrable", "SHOW transaction_read_only", "SHOW transaction_isolation", "COMMIT",
		"BEGIN READ ONLY", "SET TRANSACTION READ WRITE", "INSERT INTO basket VALUES (2, 1)", "COMMIT",
		"BEGIN READ ONLY", "INSERT INTO basket VALUES (2, 1)", "SELECT 1", "COMMIT",
		"BEGIN", "SELECT count(*) FROM fruit", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "ROLLBACK",
		"BEGIN", "BEGIN", "ROLLBACK", "ROLLBACK",
		"BEGIN", "COMMIT AND CHAIN", "INSERT INTO basket VALUES (2, 2)", "ROLLBACK AND CHAIN", "SELECT count(*) FROM basket", "COMMIT",
		"BEGIN", "SELECT 1/0", "SELECT 1", "COMMIT AND CHAIN", "SELECT 2", "END",
		"BEGIN", "SELEC 1", "SELECT 1", "ROLLBACK",
		"BEGIN READ", "BEGIN, READ ONLY", "COMMIT AND CHAIN", "SET TRANSACTION READ ONLY", "SAVEPOINT s",
		"BEGIN", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "COMMIT",
		"BEGIN", "SET LOCAL work_mem = '1MB'", "SHOW work_mem", "COMMIT", "SHOW work_mem",
		"BEGIN", "SET application_name = 'other'", "ROLLBACK", "SHOW application_name",
		"BEGIN", "DISCARD ALL", "ROLLBACK",
		"BEGIN", "COPY fruit TO STDOUT", "COMMIT",
		"BEGIN; SELECT 1", "COMMIT; BEGIN", "END",
		"BEGIN READ ONLY", "SELECT count(*) FROM fruit", "SELECT 2", "INSERT INTO basket VALUES (2, 1)", "SELECT 3", "COMMIT", "SELECT 4",
		"BEGIN READ ONLY", "SELECT count(*) FROM fruit", "SELECT 1/0", "SELECT 1", "COMMIT",
		"BEGIN READ ONLY", "SELECT 1", "SET TRANSACTION READ WRITE", "ROLLBACK", "BEGIN READ ONLY", "SELECT 1", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "ROLLBACK",
		"BEGIN READ ONLY", "SELECT 1", "SAVEPOINT s", "SELEC 1", "ROLLBACK TO s", "SELECT 2", "COMMIT",
		"BEGIN READ ONLY", "SELECT 1", "SHOW transaction_read_only", "DECLARE c CURSOR FOR SELECT * FROM fruit ORDER BY 1", "FETCH 1 FROM c", "COMMIT",
		"BEGIN READ ONLY", "SELECT 1", "COMMIT AND CHAIN", "SELECT 2", "INSERT INTO basket VALUES (2, 1)", "ROLLBACK AND CHAIN", "SELECT 3", "BEGIN", "COMMIT", "COMMIT",
		"BEGIN READ ONLY", "SELECT 1", "SET LOCAL work_mem = '1MB'", "SHOW work_mem", "COMMIT", "SHOW work_mem",
		"BEGIN READ ONLY", "SELECT 1; SELECT 2", "SELECT 1; COMMIT", "SELECT 3", "COPY fruit TO STDOUT", "BEGIN READ ONLY", "COPY fruit TO STDOUT", "END",
		"BEGIN READ ONLY", "TABLE nowhere", "SELECT 1", "ROLLBACK",
		"BEGIN READ ONLY", "PREPARE p AS SELECT 1", "EXECUTE p", "COMMIT", "BEGIN READ ONLY", "SELECT 1", "EXECUTE p", "DEALLOCATE p", "COMMIT",
		"SET default_transaction_isolation = 'serializable'", "BEGIN", "SHOW transaction_isolation", "COMMIT", "RESET default_transaction_isolation",
		"SET default_transaction_read_only = on", "BEGIN", "INSERT INTO basket VALUES (2, 3)", "ROLLBACK", "BEGIN READ WRITE", "INSERT INTO basket VALUES (2, 3)", "COMMIT", "RESET ALL",
		"SELECT count(*) FROM basket",
	})
}

// The same in the extended protocol, one by one and in a pipeline.
func TestTransactionsOfTheExtendedProtocol(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	through, straight := r.twins(t)
	run := func(sql string, described bool) (out []pgproto3.FrontendMessage) {
		out = append(out, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{})
		if described {
			out = append(out, &pgproto3.Describe{ObjectType: 'P'})
		}
		return append(out, &pgproto3.Execute{}, &pgproto3.Sync{})
	}
	again := func(name string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: name}, &pgproto3.Execute{}, &pgproto3.Sync{}}
	}
	var pipeline []pgproto3.FrontendMessage
	for _, sql := range []string{"BEGIN READ ONLY", "SELECT count(*) FROM basket", "SELECT count(*) FROM basket", "INSERT INTO basket VALUES (1, 9)", "COMMIT", "BEGIN", "INSERT INTO basket VALUES (1, 7)", "SELECT count(*) FROM basket", "ROLLBACK", "SELECT count(*) FROM basket", "BEGIN", "SELECT 1/0", "SELECT 1", "COMMIT"} {
		pipeline = append(pipeline, run(sql, true)...)
	}
	for i, c := range []struct {
		messages []pgproto3.FrontendMessage
		ready    int
	}{
		{run("BEGIN", true), 1}, {run("SELECT 1", true), 1}, {run("COMMIT", false), 1},
		{[]pgproto3.FrontendMessage{&pgproto3.Parse{Name: "b", Query: "BEGIN READ WRITE"}, &pgproto3.Describe{ObjectType: 'S', Name: "b"}, &pgproto3.Sync{}}, 1},
		{[]pgproto3.FrontendMessage{&pgproto3.Parse{Name: "c", Query: "COMMIT"}, &pgproto3.Sync{}}, 1},
		{again("b"), 1}, {again("c"), 1}, {again("b"), 1},
		{[]pgproto3.FrontendMessage{&pgproto3.Execute{}, &pgproto3.Sync{}}, 1}, {again("c"), 1},
		{again("b"), 1}, {run("INSERT INTO basket VALUES (1, 3)", false), 1}, {again("c"), 1},
		{again("b"), 1}, {[]pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "nothing"}, &pgproto3.Sync{}}, 1}, {run("SELECT 1", false), 1}, {again("c"), 1},
		{[]pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN"}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Sync{}, &pgproto3.Query{String: "END"}}, 3},
		{pipeline, 14},
		{append(run("BEGIN READ ONLY", false)[:3], run("SELECT count(*) FROM fruit", true)...), 1}, {run("SELECT 1", true), 1}, {again("c"), 1},
		{append(run("BEGIN READ ONLY", false)[:3], run("SELECT 1/0", true)...), 1}, {run("SELECT 1", true), 1}, {again("c"), 1},
		{run("BEGIN READ ONLY", true), 1}, {run("SELECT count(*) FROM fruit", true), 1}, {run("SELECT 1/0", true), 1}, {run("SELECT 1", true), 1}, {run("COMMIT", true), 1},
		{run("BEGIN READ ONLY", true), 1}, {run("SELECT count(*) FROM fruit", true), 1}, {[]pgproto3.FrontendMessage{&pgproto3.Execute{}, &pgproto3.Sync{}}, 1}, {run("SHOW transaction_read_only", true), 1}, {again("c"), 1},
		{[]pgproto3.FrontendMessage{&pgproto3.Query{String: "SELECT count(*) FROM basket"}}, 1},
	} {
		want := place.ReplaceAllString(strings.Join(straight.send(c.messages, c.ready), "\n"), "")
		got := place.ReplaceAllString(strings.Join(through.send(c.messages, c.ready), "\n"), "")
		if got != want {
			t.Errorf("%d: direct:\n%s\nthrough pgpilot:\n%s", i, want, got)
		}
	}
}

// A server discards a simple query behind a failed message of the extended protocol, and
// answers nothing until a Sync: so that a refused BEGIN can have its statement behind it.
func TestServersDiscardAQueryBehindAFailure(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must("CREATE TABLE t (a int)")
	c, err := dial(t, cluster.Primary().SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	got := hijack(t, c).send([]pgproto3.FrontendMessage{
		&pgproto3.Parse{Query: "BEGIN ISOLATION LEVEL NONE"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Query{String: "INSERT INTO t VALUES (1)"}, &pgproto3.Sync{},
	}, 1)
	if len(got) != 2 || got[0][0] != 'E' || got[1] != `Z "I"` {
		t.Errorf("it answers %q", got)
	}
	if n := su.one("SELECT count(*) FROM t"); n != "0" {
		t.Errorf("%s rows", n)
	}
}

// A transaction that has begun and is idle holds no server connection.
func TestIdleTransactionsHoldNoConnection(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	owner := r.connect()
	owner.must("CREATE TABLE t (a int)")
	var idle []*client
	for range 8 {
		c := r.connect()
		c.must("BEGIN")
		idle = append(idle, c)
	}
	owner.must("INSERT INTO t VALUES (0)")
	for i, c := range idle {
		c.must(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
		if got, want := c.route().Reason, "transaction"; got != want {
			t.Errorf("the statement's reason is %s", got)
		}
		if i%2 == 0 {
			c.must("COMMIT")
		} else {
			c.must("ROLLBACK")
		}
	}
	if n := owner.one("SELECT count(*) FROM t"); n != "5" {
		t.Errorf("%s rows, want 5", n)
	}
}

// idle_in_transaction_session_timeout ends a session whether a server knows of its
// transaction or not, and whether the role, the startup parameters or the session set it.
func TestIdleInTransactionTimeout(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	direct(t, cluster.Primary()).must("ALTER ROLE " + lab.User + " SET idle_in_transaction_session_timeout = '200ms'")
	r := newRig(t, cluster, nil)
	for name, more := range map[string][2]string{
		"role":    {"", "SELECT 1"},
		"startup": {"options='-c idle_in_transaction_session_timeout=150ms'", "SELECT 1"},
		"session": {"options='-c idle_in_transaction_session_timeout=1h'", "SET idle_in_transaction_session_timeout = '100ms'"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := r.dial(more[0])
			if err != nil {
				t.Fatal(err)
			}
			c.must(more[1])
			w := hijack(t, c)
			if got := w.query("BEGIN"); len(got) != 2 || got[1] != `Z "T"` {
				t.Fatalf("BEGIN is answered %q", got)
			}
			m, err := w.front.Receive()
			if err != nil {
				t.Fatal(err)
			}
			e, ok := m.(*pgproto3.ErrorResponse)
			if !ok || e.Severity != "FATAL" || e.Code != "25P03" {
				t.Errorf("the session gets %+v", m)
			}
		})
	}
	c, err := r.dial("options='-c idle_in_transaction_session_timeout=0'")
	if err != nil {
		t.Fatal(err)
	}
	c.must("BEGIN")
	c.must("SELECT pg_sleep(0.5)")
	c.must("COMMIT")
}
