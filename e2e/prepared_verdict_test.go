package e2e

import (
	"strconv"
	"testing"
)

// A prepared statement lives long: when the catalog changes, the verdict it was given
// when it was prepared holds no more.
func TestPreparedStatementsFollowTheCatalog(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	c := r.connect()
	c.must("CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'; CREATE VIEW v AS SELECT f() AS n")
	r.caughtUp()
	if _, err := c.conn.Prepare(timeout(t), "p", "SELECT n FROM v", nil); err != nil {
		t.Fatal(err)
	}
	role := func() string {
		t.Helper()
		if res := c.conn.ExecPrepared(timeout(t), "p", nil, nil, nil).Read(); res.Err != nil {
			t.Fatal(res.Err)
		}
		return c.route().Role
	}
	r.until("the prepared statement reads", func() bool { return role() == "replica" })
	other := r.connect()
	other.must("ALTER FUNCTION f() VOLATILE")
	r.until("it is a write when its function is volatile", func() bool { return role() == "primary" })
	other.must("ALTER FUNCTION f() STABLE")
	r.until("it reads again", func() bool { return role() == "replica" })
}

// What is bound to a parameter of a domain runs the domain's checks, wherever the
// statement runs, though the text says nothing of it.
func TestTypesOfParametersAreJudged(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	c := r.connect()
	c.must(`CREATE FUNCTION noisy() RETURNS boolean LANGUAGE sql STABLE AS $$SELECT set_config('a.b', 'c', false) IS NOT NULL$$;
		CREATE DOMAIN noisy_number AS int CHECK (noisy());
		CREATE TYPE mood AS ENUM ('sad', 'ok')`)
	r.caughtUp()
	number := func(name string) uint32 {
		n, err := strconv.ParseUint(c.one("SELECT '"+name+"'::regtype::oid"), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(n)
	}
	role := func(value string, types ...uint32) string {
		t.Helper()
		if res := c.conn.ExecParams(timeout(t), "SELECT $1", [][]byte{[]byte(value)}, types, nil, nil).Read(); res.Err != nil {
			t.Fatal(res.Err)
		}
		return c.route().Role
	}
	mood, noisy := number("mood"), number("noisy_number")
	r.until("a parameter of an enum is read on a replica", func() bool { return role("ok", mood) == "replica" })
	r.until("so is one of PostgreSQL's", func() bool { return role("1", 23) == "replica" })
	for range 3 {
		if on := role("1", noisy); on != "primary" {
			t.Errorf("a domain whose check sets something is converted on a %s", on)
		}
	}
}

// A server whose encoding has one byte a character folds letters of names that the
// classifier, with its UTF-8, leaves alone: the name may be another one.
func TestNamesThatAServerMayFoldAreNotJudged(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	su := direct(t, r.Lab.Primary())
	su.must("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	r.caughtUp()
	c, err := r.dial("dbname=latin client_encoding=UTF8")
	if err != nil {
		t.Fatal(err)
	}
	on := func(sql string) string {
		c.must(sql)
		return c.route().Role
	}
	r.until("a constant is read on a replica", func() bool { return on("SELECT 'é' AS e") == "replica" })
	for range 3 {
		if role := on("SELECT 'e' AS é"); role != "primary" {
			t.Errorf("a name that may be folded is looked up on a %s", role)
		}
	}
}
