package e2e

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/config"
)

// pgx opens a session with a driver that prepares its statements.
func (r *rig) pgx(more string) *pgx.Conn {
	r.t.Helper()
	c, err := pgx.Connect(timeout(r.t), r.dsn()+" "+more)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close(timeout(r.t)) })
	return c
}

// TestRouteOfTheSession asks for the primary in every way in which a session can, and
// for replicas again (rule 29).
func TestRouteOfTheSession(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	primary := cluster.Primary().Port
	r.awaitReplicas(cluster.Replica(1), cluster.Replica(2))

	c := r.connect()
	onPrimary := func(want bool) {
		t.Helper()
		if !want { // some time after a transaction
			r.until("a read runs on a replica", func() bool { return c.port() != primary })
		} else if port := c.port(); port != primary {
			t.Errorf("a read runs on port %d; the primary's is %d (%+v)", port, primary, c.route())
		}
	}
	onPrimary(false)
	c.must("SET pgpilot.route = 'primary'")
	onPrimary(true)
	if got := c.route(); got.Reason != "override" {
		t.Errorf("the reason is %s", got.Reason)
	}
	c.must("BEGIN")
	c.must("SET pgpilot.route = 'replica'")
	c.must("ROLLBACK")
	onPrimary(true)
	c.must("BEGIN")
	c.must("SAVEPOINT a")
	c.must("SET LOCAL pgpilot.route TO auto")
	if got := c.one("SHOW pgpilot.route"); got != "auto" {
		t.Errorf("in the transaction the route is %s", got)
	}
	c.must("ROLLBACK TO a")
	if got := c.one("SHOW pgpilot.route"); got != "primary" {
		t.Errorf("back at the savepoint the route is %s", got)
	}
	c.fails("SET pgpilot.route = 'elsewhere'", "22023")
	c.fails("SELECT 1", "25P02") // its transaction has failed with it
	c.must("ROLLBACK")
	c.must("RESET pgpilot.route")
	onPrimary(false)
	c.must("SET pgpilot.route = 'primary'")
	c.must("DISCARD ALL")
	onPrimary(false)
	c.fails("SET pgpilot.rote = 'primary'", "42704")
	c.fails("SET pgpilot.last_route = 'x'", "55P02")
	onPrimary(false)

	// In one string with others.
	c.must("CREATE TABLE strung (n int)")
	c.must("SET pgpilot.route = 'primary'; INSERT INTO strung VALUES (1); INSERT INTO strung VALUES (2)")
	onPrimary(true)
	c.fails("SET pgpilot.route = 'replica'; INSERT INTO strung VALUES (1/0)", "22012")
	onPrimary(true)
	c.must("BEGIN; SET LOCAL pgpilot.route = 'replica'; INSERT INTO strung VALUES (3); COMMIT")
	onPrimary(true)
	c.must("BEGIN; RESET pgpilot.route; INSERT INTO strung VALUES (4); ROLLBACK")
	onPrimary(true)
	if got := c.one("SELECT count(*) FROM strung"); got != "3" {
		t.Errorf("there are %s rows", got)
	}
	c.fails("SET pgpilot.fencing = 'relaxed'; SELECT 1", "0A000")
	c.must("INSERT INTO strung VALUES (5); RESET pgpilot.route")
	onPrimary(false)

	var err error
	if c, err = r.dial("pgpilot.route=primary"); err != nil {
		t.Fatal(err)
	}
	onPrimary(true)
	c.must("SET pgpilot.route = 'replica'")
	onPrimary(false)
	c.must("RESET pgpilot.route") // to what the session began with
	onPrimary(true)
	if c, err = r.dial("options='-c work_mem=5MB -c pgpilot.route=primary'"); err != nil {
		t.Fatal(err)
	}
	onPrimary(true)
	if got := c.one("SHOW work_mem"); got != "5MB" {
		t.Errorf("work_mem is %s", got)
	}
	if got := c.one("SELECT coalesce(current_setting('pgpilot.route', true), 'none')"); got != "none" {
		t.Errorf("the server knows of the route: %s", got)
	}
	if _, err = r.dial("pgpilot.rote=primary"); sqlstate(err) != "42704" {
		t.Errorf("an unknown parameter at the start: %v", err)
	}
	if _, err = r.dial("options=-cpgpilot.fencing=sloppy"); sqlstate(err) != "22023" {
		t.Errorf("a bad value at the start: %v", err)
	}
}

// TestRouteWithPsql sets the route as one does by hand, and with PGOPTIONS.
func TestRouteWithPsql(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	primary := strconv.Itoa(cluster.Primary().Port)
	if got := r.psql("SET pgpilot.route = primary;\nSELECT inet_server_port();\nSHOW pgpilot.route;"); got != primary+"\nprimary" {
		t.Errorf("psql prints %s", got)
	}
	out, complaints, err := program(t, r.port, "", "psql", "-XAt", "-c", "SHOW pgpilot.route; SET pgpilot.route = primary; SELECT inet_server_port(); SHOW pgpilot.route")
	if want := "auto\nSET\n" + primary + "\nprimary"; err != nil || strings.TrimSpace(out) != want {
		t.Errorf("psql prints %s and %s (%v), want %s", out, complaints, err, want)
	}
	out, complaints, err = program(t, r.port, "", "env", "PGOPTIONS=-c pgpilot.route=primary", "psql", "-XAt", "-c", "SELECT inet_server_port()")
	if err != nil || strings.TrimSpace(out) != primary {
		t.Errorf("with PGOPTIONS psql prints %s and %s (%v)", out, complaints, err)
	}
	out, complaints, err = program(t, r.port, "", "psql", "-XAt", "-c", "SET pgpilot.route = 'here'")
	if err == nil || !strings.Contains(complaints, `invalid value for parameter "pgpilot.route": "here"`) || !strings.Contains(complaints, "Available values: auto, primary, replica.") {
		t.Errorf("psql prints %s and %s", out, complaints)
	}
}

// TestOwnParametersWithPreparedStatements sets and reads them with a driver that uses
// the extended protocol and binary values.
func TestOwnParametersWithPreparedStatements(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	ctx := timeout(t)
	c := r.pgx("")
	primary := cluster.Primary().Port
	port := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}) (n int) {
		t.Helper()
		if err := q.QueryRow(ctx, "SELECT inet_server_port()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	show := func(name string) (v string) {
		t.Helper()
		if err := c.QueryRow(ctx, "SHOW "+name).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	exec := func(sql string) {
		t.Helper()
		rows, err := c.Query(ctx, sql) // prepares it, as Exec does not
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for range 3 { // the second time the statements are there
		exec("SET pgpilot.route = 'primary'")
		if got := show("pgpilot.route"); got != "primary" {
			t.Errorf("the route is %s", got)
		}
		if got := port(c); got != primary {
			t.Errorf("a read runs on port %d", got)
		}
		exec("RESET pgpilot.route")
		r.until("a read runs on a replica", func() bool { return port(c) != primary })
	}
	var backend, role, reason string
	var fence, replayed *string
	var waited int64
	if err := c.QueryRow(ctx, "SHOW pgpilot.last_route").Scan(&backend, &role, &reason, &fence, &replayed, &waited); err != nil || role != "replica" || waited < 0 {
		t.Errorf("the last route is %s, %s, %s, %d: %v", backend, role, reason, waited, err)
	}
	var id string
	var unsettled bool
	var settings, statements int64
	if err := c.QueryRow(ctx, "SHOW pgpilot.session").Scan(&id, nil, &settings, &statements, nil, &unsettled); err != nil || id == "" || unsettled || statements == 0 {
		t.Errorf("the session is %s, %d, %d, %v: %v", id, settings, statements, unsettled, err)
	}

	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	exec("SET LOCAL pgpilot.freshness = '250ms'")
	if got := show("pgpilot.freshness"); got != "250ms" {
		t.Errorf("in the transaction the freshness is %s", got)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := show("pgpilot.freshness"); got != "0" {
		t.Errorf("after the transaction the freshness is %s", got)
	}

	// In one sequence with others.
	b := &pgx.Batch{}
	b.Queue("SET pgpilot.freshness = '5s'")
	b.Queue("SELECT 1")
	b.Queue("SHOW pgpilot.freshness")
	results := c.SendBatch(ctx, b)
	if _, err := results.Exec(); err != nil {
		t.Fatal(err)
	}
	var one int
	var fresh string
	if err := results.QueryRow().Scan(&one); err != nil {
		t.Fatal(err)
	}
	if err := results.QueryRow().Scan(&fresh); err != nil || fresh != "5s" {
		t.Errorf("in a batch the freshness is %s: %v", fresh, err)
	}
	if err := results.Close(); err != nil {
		t.Fatal(err)
	}
	b = &pgx.Batch{}
	b.Queue("SET pgpilot.freshness = '1s'")
	b.Queue("SELECT 1/0")
	if err := c.SendBatch(ctx, b).Close(); sqlstate(err) != "22012" {
		t.Errorf("a batch that fails: %v", err)
	}
	if got := show("pgpilot.freshness"); got != "5s" {
		t.Errorf("after a batch that has failed the freshness is %s", got)
	}
	b = &pgx.Batch{}
	b.Queue("SET pgpilot.freshness = '6s'")
	b.Queue("SET pgpilot.freshness = 'never'")
	if err := c.SendBatch(ctx, b).Close(); sqlstate(err) != "22023" {
		t.Errorf("a batch with a bad value: %v", err)
	}
	if got := show("pgpilot.freshness"); got != "5s" {
		t.Errorf("after a batch with a bad value the freshness is %s", got)
	}
}

// TestFencingOfTheSession has sessions read in another mode than the configured one.
func TestFencingOfTheSession(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) { c.Fencing.Mode = config.Strict })
	r.awaitReplicas(cluster.Replica(1), cluster.Replica(2))
	c := r.connect()
	c.must("CREATE TABLE fenced (n int)")
	r.caughtUp()
	r.readsOnReplica(c, "SELECT count(*) FROM fenced")
	for i := range 2 {
		if err := cluster.Replica(i + 1).PauseReplay(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	c.must("INSERT INTO fenced VALUES (1)")
	if got := c.one("SELECT count(*) FROM fenced"); got != "1" {
		t.Errorf("a strict session reads %s", got)
	}
	c.must("SET pgpilot.fencing = 'relaxed'")
	if got := c.one("SELECT count(*) FROM fenced"); got != "0" || c.route().Role != "replica" {
		t.Errorf("a relaxed session reads %s on %+v", got, c.route())
	}
	c.must("SET pgpilot.fencing = 'strict'")
	if got := c.one("SELECT count(*) FROM fenced"); got != "1" {
		t.Errorf("a session that is strict again reads %s", got)
	}
}

// TestDefaultsOfUsersAndDatabases gives users and databases routes and modes, and
// others while their sessions run. The closer place wins.
func TestDefaultsOfUsersAndDatabases(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must("CREATE ROLE other LOGIN PASSWORD 'other' IN ROLE pg_read_all_data")
	su.must("CREATE DATABASE second")
	r := newRig(t, cluster, func(c *config.Config) {
		c.Users = append(c.Users, config.User{Name: "other", Password: "other", Route: config.RouteReplica, Freshness: config.Duration(time.Second)})
		c.Databases = []config.Database{{Name: "second", Route: config.RoutePrimary, Fencing: config.Relaxed, Freshness: config.Duration(time.Minute)}}
	})
	r.awaitReplicas(cluster.Replica(1), cluster.Replica(2))
	r.caughtUp()
	session := func(words string) *client {
		t.Helper()
		c, err := r.dial(words)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain := session("")
	otherUser := session("user=other password=other")
	second := session("dbname=second")
	both := session("dbname=second user=other password=other")
	is := func(c *client, route, fencing, freshness string) {
		t.Helper()
		got := c.one("SHOW pgpilot.route") + " " + c.one("SHOW pgpilot.fencing") + " " + c.one("SHOW pgpilot.freshness")
		if want := route + " " + fencing + " " + freshness; got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	is(plain, "auto", "strict", "0")
	is(otherUser, "replica", "strict", "1s")
	is(second, "primary", "relaxed", "1min")
	is(both, "replica", "relaxed", "1s")
	if got := second.port(); got != cluster.Primary().Port {
		t.Errorf("a read of the second database runs on port %d", got)
	}
	r.until("one of the other user's on a replica", func() bool { return both.port() != cluster.Primary().Port })
	second.must("SET pgpilot.route = 'auto'")
	is(second, "auto", "relaxed", "1min")
	is(session("dbname=second pgpilot.route=replica"), "replica", "relaxed", "1min")

	r.configure(func(c *config.Config) {
		c.Users = slices.Clone(c.Users)
		for i := range c.Users {
			c.Users[i].Route = config.RoutePrimary
		}
		c.Databases = []config.Database{}
	})
	r.until("sessions that are there have the new defaults", func() bool { return plain.one("SHOW pgpilot.route") == "primary" })
	is(plain, "primary", "strict", "0")
	is(second, "auto", "strict", "0") // what it has set itself stays
	is(both, "primary", "strict", "1s")
	second.must("RESET pgpilot.route")
	is(second, "primary", "strict", "0")
}

// TestAllToPrimary throws the emergency switch under sessions that are there, and back:
// no hint and no session leads around it.
func TestAllToPrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	primary := cluster.Primary().Port
	r.awaitReplicas(cluster.Replica(1), cluster.Replica(2))
	c := r.connect()
	c.must("SET pgpilot.route = 'replica'")
	r.until("a read runs on a replica", func() bool { return c.port() != primary })
	r.configure(func(c *config.Config) { c.Routing.AllToPrimary = true })
	r.until("the switch is thrown", func() bool { return c.port() == primary })
	if got := c.one("SELECT inet_server_port() /* pgpilot: replica */"); got != strconv.Itoa(primary) || c.route().Reason != "all_to_primary" {
		t.Errorf("a read with a hint runs on port %s: %+v", got, c.route())
	}
	r.configure(func(c *config.Config) { c.Routing.AllToPrimary = false })
	r.until("the switch is back", func() bool { return c.port() != primary })
}

// TestFreshness has sessions and statements say how old an answer may be, in a mode in
// which nothing else does.
func TestFreshness(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Fencing.Mode = config.Relaxed
		c.Health.Interval = config.Duration(100 * time.Millisecond)
	})
	r.awaitReplicas(cluster.Replica(1), cluster.Replica(2))
	writer, c := r.connect(), r.connect()
	writer.must("CREATE TABLE ages (n int); INSERT INTO ages VALUES (1)")
	r.caughtUp()
	const sql = "SELECT n FROM ages /* pgpilot: freshness=2s */"
	r.until("what replicas show is fresh", func() bool { return c.one(sql) == "1" && c.route().Role == "replica" })
	for i := range 2 {
		if err := cluster.Replica(i + 1).PauseReplay(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	writer.must("UPDATE ages SET n = 2")
	r.until("replicas are too old for the hint", func() bool { return c.one(sql) == "2" })
	if got := c.route(); got.Role != "primary" || got.Reason != "stale" && got.Reason != "no_replica" {
		t.Errorf("a read that has to be fresh ran on %+v", got)
	}
	if got := c.one("SELECT n FROM ages"); got != "1" || c.route().Role != "replica" {
		t.Errorf("a read without the hint gives %s on %+v", got, c.route())
	}
	c.must("SET pgpilot.freshness = '2s'")
	if got := c.one("SELECT n FROM ages"); got != "2" {
		t.Errorf("a session that wants it fresh reads %s", got)
	}
	if got := c.one("SELECT n FROM ages /* pgpilot: freshness=1h */"); got != "1" {
		t.Errorf("a statement that may be old reads %s", got)
	}
	for i := range 2 {
		if err := cluster.Replica(i + 1).ResumeReplay(timeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	r.until("replicas are fresh again", func() bool { return c.one("SELECT n FROM ages") == "2" && c.route().Role == "replica" })
}

// TestTokensInARelaxedSession: a token that a session is given counts in a mode in which
// nothing else does.
func TestTokensInARelaxedSession(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) { c.Fencing.Mode = config.Relaxed })
	r.awaitReplicas(cluster.Replicas()...)
	writer, other := r.connect(), r.connect()
	writer.must("CREATE TABLE carried (n int)")
	r.caughtUp()
	const sql = "SELECT count(*) FROM carried"
	r.readsOnReplica(other, sql)
	pause(t, cluster.Replicas()...)
	writer.must("INSERT INTO carried VALUES (1)")
	token := writer.one("SHOW pgpilot.fence")
	if got := other.one(sql); got != "0" {
		t.Errorf("a relaxed session reads %s from a replica that does not replay", got)
	}
	other.must("SET pgpilot.fence = '" + token + "'")
	if got := other.one(sql); got != "1" {
		t.Errorf("with the token it reads %s", got)
	}
	resume(t, cluster.Replicas()...)
	r.until("its reads are back on replicas", func() bool { return other.one(sql) == "1" && other.route().Role == "replica" })
}
