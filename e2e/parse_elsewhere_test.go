package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// A session that prepares a statement gets what that means then on every connection, also on
// those that hold the same text from before, for another session (rules 14 and 17). PostgreSQL
// would not tell: a plan does not notice a table that comes to be in front of its own in
// search_path, and types of parameters stay what they were ("PREPARE", Notes).
func TestParseCountsOnEveryConnection(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, 1)
	r := newRig(t, cluster, narrow(2))
	a, other := r.connect(), direct(t, cluster.Primary()) // which finds a connection
	other.must("SET ROLE " + lab.User)
	for _, sql := range []string{
		"CREATE TABLE t (id int, v text)", "INSERT INTO t VALUES (1, 'public')", "CREATE SCHEMA " + lab.User,
		"CREATE TABLE numbers (n int)", "CREATE TABLE wider (a int)", "INSERT INTO wider VALUES (1)", "CREATE TABLE told (n int)",
	} {
		other.must(sql)
	}
	both := r.hold()
	// everywhere has both connections hold a statement of a session.
	everywhere := func(name, sql string, args ...string) {
		t.Helper()
		r.caughtUp()
		both.free(0, func() {
			r.readsOnReplica(a, "SELECT t.*, numbers.*, wider.*, told.* FROM t, numbers, wider, told") // until it is known what those are, nothing is left prepared
			a.parse(name, sql)
		})
		for i := range both.holders {
			both.free(i, func() {
				a.must("BEGIN")
				if _, err := a.exec(name, args...); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
				a.must("ROLLBACK")
			})
		}
	}
	// elsewhere has a new session prepare a statement on one connection and execute it on each, in
	// a transaction, with the same result.
	elsewhere := func(sql, want string, args ...string) {
		t.Helper()
		b := r.connect()
		both.free(0, func() { b.parse("s", sql) })
		for _, i := range []int{1, 0} {
			both.free(i, func() {
				b.must("BEGIN")
				if got, err := b.exec("s", args...); got != want {
					t.Errorf("%s: on connection %d %q, %v; want %q", sql, i, got, err, want)
				}
				b.must("ROLLBACK")
			})
		}
	}
	const reads, writes = "SELECT v FROM t WHERE id = $1", "UPDATE t SET v = v || '!' WHERE id = $1 RETURNING v"
	everywhere("reads", reads, "1")
	everywhere("writes", writes, "1")
	other.must("CREATE TABLE " + lab.User + ".t (id int, v text)")
	other.must("INSERT INTO " + lab.User + ".t VALUES (1, 'own')")
	elsewhere(reads, "own", "1")
	elsewhere(writes, "own!", "1")

	const adds = "INSERT INTO numbers VALUES ($1) RETURNING 'added'"
	everywhere("adds", adds, "1")
	other.must("ALTER TABLE numbers ALTER n TYPE bigint")
	elsewhere(adds, "added", "5000000000")

	const all = "SELECT * FROM wider FOR UPDATE"
	everywhere("all", all)
	other.must("ALTER TABLE wider ADD b int DEFAULT 2")
	elsewhere(all, "1|2")

	const tells = "UPDATE told SET n = $1"
	everywhere("tells", tells, "1")
	other.must("ALTER TABLE told ALTER n TYPE text")
	b := r.connect()
	both.free(0, func() { b.parse("s", tells) })
	for i := range both.holders {
		both.free(i, func() {
			b.must("BEGIN")
			if got := b.describe("s"); got != pgtype.TextOID {
				t.Errorf("%s: on connection %d the parameter's type is %d, want text", tells, i, got)
			}
			b.must("ROLLBACK")
		})
	}
}

// The same with PREPARE and EXECUTE, whose statements have their clients' names on servers.
func TestPrepareCountsOnEveryConnection(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, 1)
	r := newRig(t, cluster, narrow(2))
	other := direct(t, cluster.Primary()) // which finds a connection
	other.must("SET ROLE " + lab.User)
	other.must("CREATE TABLE t (v text); INSERT INTO t VALUES ('public'); CREATE SCHEMA " + lab.User)
	r.caughtUp()
	both := r.hold()
	const prepare = "PREPARE q AS UPDATE t SET v = v || '!' RETURNING *"
	both.free(0, func() {
		c := r.connect()
		r.readsOnReplica(c, "SELECT * FROM t") // until it is known what that is, nothing is left prepared
	})
	for _, c := range both.holders {
		c.must(prepare)
	}
	// elsewhere has a new session prepare it on one connection and execute it on each.
	elsewhere := func(want string) {
		t.Helper()
		b := r.connect()
		both.free(0, func() { b.must(prepare) })
		for i := range both.holders {
			both.free(i, func() {
				b.must("BEGIN")
				if rows, err := b.run("EXECUTE q"); err != nil || strings.Join(rows[0], "|") != want {
					t.Errorf("EXECUTE on connection %d: %v, %v; want %s", i, rows, err, want)
				}
				b.must("ROLLBACK")
			})
		}
	}
	other.must("CREATE TABLE " + lab.User + ".t (v text)")
	other.must("INSERT INTO " + lab.User + ".t VALUES ('own')")
	elsewhere("own!")
	other.must("ALTER TABLE t ADD n int DEFAULT 7")
	elsewhere("own!|7")
}

// What a connection to a replica holds is no older either, and not from when the replica
// had not replayed yet what the session's own Parse has seen.
func TestParseCountsOnReplicas(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, 1)
	r := newRig(t, cluster, narrow(1))
	a, other := r.connect(), r.connect()
	other.must("CREATE TABLE t (v text); INSERT INTO t VALUES ('public'); CREATE SCHEMA " + lab.User)
	const reads, prepare = "SELECT v, inet_server_port() FROM t", "PREPARE q AS SELECT v, inet_server_port() FROM t"
	replica := cluster.Replica(1)
	r.caughtUp()
	r.readsOnReplica(a, reads)
	a.parse("s", reads)
	a.must(prepare)
	sees := func(c *client, want string) {
		t.Helper()
		r.until("a read on the replica", func() bool {
			got, err := c.exec("s")
			if err != nil {
				t.Fatal(err)
			}
			v, port, _ := strings.Cut(got, "|")
			if v != want {
				t.Fatalf("%s is read on port %s, want %s", v, port, want)
			}
			return port == fmt.Sprint(replica.Port)
		})
		r.until("EXECUTE on the replica", func() bool {
			rows := c.must("EXECUTE q")
			if rows[0][0] != want {
				t.Fatalf("EXECUTE reads %s on port %s, want %s", rows[0][0], rows[0][1], want)
			}
			return rows[0][1] == fmt.Sprint(replica.Port)
		})
	}
	sees(a, "public")
	other.must("CREATE TABLE " + lab.User + ".t (v text); INSERT INTO " + lab.User + ".t VALUES ('own')")
	r.caughtUp()
	prepared := func(c *client) *client {
		t.Helper()
		c.must("BEGIN") // on the primary
		c.parse("s", reads)
		c.must(prepare)
		c.must("COMMIT")
		return c
	}
	sees(prepared(r.connect()), "own")

	// A session that asks for less has it parsed there while the replica is behind.
	b, relaxed := r.connect(), r.connect()
	relaxed.must("SET pgpilot.fencing = relaxed")
	relaxed.must("SET search_path = late, public")
	if err := replica.PauseReplay(timeout(t)); err != nil {
		t.Fatal(err)
	}
	b.must("SET search_path = late, public")
	b.must("CREATE SCHEMA late; CREATE TABLE late.t AS SELECT 'late'::text AS v")
	prepared(b)
	relaxed.parse("s", reads)
	relaxed.must(prepare)
	sees(relaxed, "public")
	if err := replica.ResumeReplay(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.caughtUp()
	sees(b, "late")
}

// held are sessions that hold all connections to the primary but those they are told to let
// others use.
type held struct {
	r       *rig
	holders []*client
	pids    []string
}

// hold holds both connections of a pool of two.
func (r *rig) hold() *held {
	h := &held{r: r, holders: []*client{r.connect(), r.connect()}}
	for _, c := range h.holders {
		c.must("BEGIN")
		h.pids = append(h.pids, c.one("SELECT pg_backend_pid()"))
	}
	return h
}

// free has f find one of the two.
func (h *held) free(i int, f func()) {
	h.r.t.Helper()
	h.holders[i].must("COMMIT")
	f()
	h.holders[i].must("BEGIN")
	if got := h.holders[i].one("SELECT pg_backend_pid()"); got != h.pids[i] {
		h.r.t.Fatalf("connection %d is %s now, want %s", i, got, h.pids[i])
	}
}

// parse prepares a statement without having it described.
func (c *client) parse(name, sql string) {
	c.t.Helper()
	c.sequence(&pgproto3.Parse{Name: name, Query: sql})
}

// describe gives the type of a statement's only parameter.
func (c *client) describe(name string) uint32 {
	c.t.Helper()
	for _, m := range c.sequence(&pgproto3.Describe{ObjectType: 'S', Name: name}) {
		if p, ok := m.(*pgproto3.ParameterDescription); ok && len(p.ParameterOIDs) == 1 {
			return p.ParameterOIDs[0]
		}
	}
	return 0
}

// sequence sends messages and a Sync, which have to succeed, and gives copies of what answers them.
func (c *client) sequence(ms ...pgproto3.FrontendMessage) (answers []pgproto3.BackendMessage) {
	c.t.Helper()
	f := c.conn.Frontend()
	for _, m := range append(ms, &pgproto3.Sync{}) {
		f.Send(m)
	}
	if err := f.Flush(); err != nil {
		c.t.Fatal(err)
	}
	for {
		m, err := c.conn.ReceiveMessage(timeout(c.t))
		if err != nil {
			c.t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			c.t.Fatalf("%s: %s", m.Code, m.Message)
		case *pgproto3.ParameterDescription:
			answers = append(answers, &pgproto3.ParameterDescription{ParameterOIDs: append([]uint32(nil), m.ParameterOIDs...)})
		case *pgproto3.ReadyForQuery:
			return answers
		}
	}
}

// exec executes a prepared statement and gives the values of its first row.
func (c *client) exec(name string, args ...string) (string, error) {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	res := c.conn.ExecPrepared(timeout(c.t), name, params, nil, nil).Read()
	if res.Err != nil || len(res.Rows) == 0 {
		return "", res.Err
	}
	var values []string
	for _, v := range res.Rows[0] {
		values = append(values, string(v))
	}
	return strings.Join(values, "|"), nil
}
