package catalog

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// patience bounds what a test waits for.
const patience = 90 * time.Second

// desk is a Library with what it said.
type desk struct {
	*Library
	changed chan string
	log     *logbook
}

type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

func open(t *testing.T, c *lab.Cluster, change func(*Options)) *desk {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{changed: make(chan string, 100), log: &logbook{}}
	o := Options{
		Login: *login(c), Parse: pgquery.Parse, Wait: patience, Most: DefaultMost, Unconfirmed: DefaultUnconfirmed, Absent: DefaultAbsent, Metrics: m,
		Changed: func(database string) { d.changed <- database },
		Log:     slog.New(slog.NewTextHandler(d.log, nil)),
	}
	if change != nil {
		change(&o)
	}
	d.Library = New(o)
	t.Cleanup(d.Close)
	return d
}

func (d *desk) judge(text string) judge.Opinion { return judge.Judge(text, d.Of(lab.Database)) }

func (d *desk) wantChange(t *testing.T, database string) {
	t.Helper()
	select {
	case got := <-d.changed:
		if got != database {
			t.Fatalf("%s changed, want %s", got, database)
		}
	case <-time.After(patience):
		t.Fatalf("no news of a change of %s", database)
	}
}

// eventually has the Library look until the verdict is right.
func (d *desk) eventually(t *testing.T, text string, want verdict.Kind) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		c := d.Of(lab.Database)
		o := judge.Judge(text, c)
		if o.Kind == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is a %v because of %q, want a %v", text, o.Kind, o.Reason, want)
		}
		d.Again(lab.Database, c, true)
	}
}

// tells waits until something is in the log.
func (d *desk) tells(t *testing.T, what string) {
	t.Helper()
	for deadline := time.Now().Add(patience); d.log.count(what) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not told", what)
		}
	}
}

// Who asks right after a look waits until the next one may be: a row may be on its way into
// what has just been made.
func TestANewTableIsKnownRightAfterALook(t *testing.T) {
	c := labtest.Start(t, 0)
	d := open(t, c, nil)
	conn := connect(t, c.Primary().DSN())
	const text = "SELECT a FROM fresh_as_can_be"
	if o := d.judge(text); !o.Unknown {
		t.Fatalf("%+v", o)
	}
	d.Again(lab.Database, d.Of(lab.Database), true)
	exec(t, conn, "CREATE TABLE fresh_as_can_be (a int)")
	if !d.Again(lab.Database, d.Of(lab.Database), true) {
		t.Fatal("nothing new was found")
	}
	if o := d.judge(text); o.Kind != verdict.Read {
		t.Errorf("it is a %v because of %q", o.Kind, o.Reason)
	}
}

func TestANewTableIsKnownToWhoAsksAgain(t *testing.T) {
	c := labtest.Start(t, 0)
	d := open(t, c, nil)
	if o := d.judge("SELECT * FROM fresh"); !o.Unknown {
		t.Fatalf("%+v", o)
	}
	d.wantChange(t, lab.Database) // what was judged without a catalog
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE fresh (id int)")
	d.eventually(t, "SELECT * FROM fresh", verdict.Read)
	select {
	case <-d.changed:
		t.Error("a new table spoils no verdict, since none was kept that lacked it")
	default:
	}
}

func TestRedefinitionsDropVerdicts(t *testing.T) {
	c := labtest.Start(t, 0)
	conn := connect(t, c.Primary().DSN())
	exec(t, conn, `CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'; CREATE TABLE t (id int, total int);
		CREATE VIEW v AS SELECT f(), id FROM t; CREATE TABLE kept (id int); CREATE DOMAIN d AS int; CREATE TABLE of_d (x d)`)
	d := open(t, c, nil)
	d.eventually(t, "SELECT * FROM v", verdict.Read)
	d.wantChange(t, lab.Database)
	for i, step := range []struct{ sql, text string }{
		{"ALTER FUNCTION f() VOLATILE", "SELECT * FROM v"},
		{"CREATE POLICY p ON kept USING (pg_backend_pid() > 0); ALTER TABLE kept ENABLE ROW LEVEL SECURITY", "SELECT * FROM kept"},
		{"ALTER TABLE of_d SET UNLOGGED", "SELECT * FROM of_d"},
		{"ALTER DOMAIN d ADD CONSTRAINT c CHECK (pg_backend_pid() > 0)", "SELECT 1::d"},
		{"CREATE FUNCTION total(t) RETURNS int LANGUAGE sql AS 'SELECT 1'", "SELECT t.total FROM t"},
		{"CREATE SCHEMA other; CREATE UNLOGGED TABLE other.t (id int)", "SELECT * FROM t"},
		{"CREATE VIEW other.pg_class AS SELECT pg_backend_pid() AS oid", "SELECT count(*) FROM pg_class"},
		{"CREATE FUNCTION other.lower(text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'", "SELECT lower('A')"},
		{"CREATE FUNCTION g(int, int) RETURNS bool LANGUAGE sql AS 'SELECT true'; CREATE OPERATOR other.= (FUNCTION = g, LEFTARG = int, RIGHTARG = int)", "SELECT 1 = 2"},
	} {
		d.eventually(t, step.text, verdict.Read)
		exec(t, conn, step.sql)
		switch i % 3 { // the first without being asked
		case 1:
			d.Look(lab.Database)
		case 2:
			d.Changing(lab.Database)
		}
		d.wantChange(t, lab.Database)
		if o := d.judge(step.text); o.Kind != verdict.Write {
			t.Errorf("%s: %s is still a read", step.sql, step.text)
		}
	}
	exec(t, conn, "ALTER FUNCTION f() STABLE; DROP SCHEMA other CASCADE")
	d.wantChange(t, lab.Database) // or reads would stay on the primary
	d.eventually(t, "SELECT lower('A')", verdict.Read)
}

func TestTemporaryTablesAreKnownForWhatTheyAre(t *testing.T) {
	c := labtest.Start(t, 0)
	conn := connect(t, c.Primary().DSN())
	d := open(t, c, nil)
	d.Of(lab.Database)
	d.wantChange(t, lab.Database)
	exec(t, conn, "CREATE TEMP TABLE passing (id int)")
	deadline := time.Now().Add(patience)
	for {
		at := d.Of(lab.Database)
		if o := judge.Judge("SELECT * FROM passing", at); o.Kind == verdict.Write && !o.Unknown {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("never known")
		}
		d.Again(lab.Database, at, true)
	}
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE passing (id int)")
	d.eventually(t, "SELECT * FROM passing", verdict.Read)
	d.wantChange(t, lab.Database) // the verdict above may have been kept
}

func TestReadFunctions(t *testing.T) {
	c := labtest.Start(t, 0)
	exec(t, connect(t, c.Primary().DSN()), `CREATE FUNCTION f() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1'; CREATE VIEW v AS SELECT f()`)
	d := open(t, c, func(o *Options) { o.Reads = []string{"public.f", "pg_catalog.current_setting"} })
	for _, text := range []string{"SELECT f()", "SELECT * FROM v", "SELECT current_setting('work_mem')"} {
		if o := d.judge(text); o.Kind != verdict.Read {
			t.Errorf("%s: a write because of %s", text, o.Reason)
		}
	}
	d.wantChange(t, lab.Database)
	d.Set(*login(c), nil, patience)
	d.wantChange(t, lab.Database)
	if o := d.judge("SELECT f()"); o.Kind != verdict.Write {
		t.Error("a function that is not configured any more is still a read")
	}
}

func TestReadFunctionsThatNoDatabaseHasAreTold(t *testing.T) {
	c := labtest.Start(t, 0)
	exec(t, connect(t, c.Primary().DSN()), `CREATE FUNCTION total() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1'`)
	d := open(t, c, func(o *Options) {
		o.Reads = []string{"public.total", "pg_catalog.current_setting", "public.totl", "app.total", "public.quite_another"}
	})
	told := func(name, near string) {
		t.Helper()
		line := "function=" + name
		if near != "" {
			line += " nearest=" + near
		}
		d.tells(t, line+"\n")
		if n := d.log.count(line + "\n"); n != 1 {
			t.Errorf("%q is told %d times", line, n)
		}
	}
	d.eventually(t, "SELECT total()", verdict.Read)
	d.eventually(t, "SELECT relname FROM pg_class", verdict.Read)
	exec(t, connect(t, c.Primary().DSN()), `CREATE TABLE u (id int)`)
	d.eventually(t, "SELECT * FROM u", verdict.Read) // all is read again
	told("public.totl", "public.total")
	told("app.total", "public.total")
	told("public.quite_another", "")
	if n := d.log.count("routing.read_functions"); n != 3 {
		t.Errorf("%d lines", n)
	}
	exec(t, connect(t, c.Primary().DSN()), `CREATE SCHEMA app; CREATE FUNCTION app.total() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1'`)
	d.Set(*login(c), []string{"app.total", "public.totl"}, patience)
	d.eventually(t, "SELECT app.total()", verdict.Read)
	if n := d.log.count("function=app.total "); n != 1 {
		t.Errorf("a function that is there is told of %d times", n)
	}
}

// The login that a new configuration names is used from then on, so that the former one can
// be dropped, and its connection is not kept.
func TestANewLoginReplacesTheConnection(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	exec(t, super, "CREATE ROLE second LOGIN PASSWORD 'other'")
	d := open(t, c, nil)
	d.eventually(t, "SELECT relname FROM pg_class", verdict.Read)
	next := *login(c)
	next.Monitor.User, next.Monitor.Password = "second", "other"
	d.Set(next, nil, patience)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var users []string
		if err := super.QueryRow(t.Context(), `SELECT coalesce(array_agg(usename::text), '{}') FROM pg_stat_activity
			WHERE application_name = 'pgpilot-classifier'`).Scan(&users); err != nil {
			t.Fatal(err)
		}
		if len(users) == 1 && users[0] == "second" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the catalog is read as %v", users)
		}
	}
	d.eventually(t, "SELECT relname FROM pg_class", verdict.Read)
}

func TestADatabaseThatMayNotBeEnteredIsUnknown(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	exec(t, super, "CREATE DATABASE closed")
	exec(t, super, "REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
	d := open(t, c, nil)
	at := d.Of("closed")
	if o := judge.Judge("SELECT * FROM t", at); o.Kind != verdict.Write || o.Unknown {
		t.Errorf("%+v", o)
	}
	for text, want := range map[string]verdict.Kind{
		"SELECT 1, $1, current_timestamp, CAST(1 AS bigint)":             verdict.Read,
		"SELECT pg_catalog.lower('A'), relname FROM pg_catalog.pg_class": verdict.Read,
		"SELECT lower('A')":                           verdict.Write, // of the database's, perhaps
		"SELECT 1 + 1":                                verdict.Write,
		"SELECT 'a'::text":                            verdict.Write,
		"SELECT relname FROM pg_class":                verdict.Write,
		"SELECT c.relname FROM pg_catalog.pg_class c": verdict.Write,
		"SELECT x.a FROM (SELECT 1 AS a) x":           verdict.Write,
	} {
		if o := judge.Judge(text, at); o.Kind != want || o.Unknown {
			t.Errorf("%s: %+v", text, o)
		}
	}
	if d.Again("closed", at, true) {
		t.Error("there cannot be more to know")
	}
	if n := d.log.count("CONNECT"); n != 1 {
		t.Errorf("the missing grant is mentioned %d times", n)
	}
	exec(t, super, "GRANT CONNECT ON DATABASE closed TO "+lab.User)
	d.wantChange(t, "closed")
	if _, ok := d.Of("closed").(*Snapshot); !ok {
		t.Error("not looked into after the grant")
	}
}

func TestTheNumberOfDatabasesIsBounded(t *testing.T) {
	c := labtest.Start(t, 0)
	d := open(t, c, func(o *Options) { o.Most = 1 })
	if _, ok := d.Of(lab.Database).(*Snapshot); !ok {
		t.Fatal("the first is not looked into")
	}
	for range 2 {
		if _, ok := d.Of("postgres").(judge.Blind); !ok {
			t.Fatal("the second is looked into")
		}
	}
	if n := d.log.count("only the first"); n != 1 {
		t.Errorf("mentioned %d times", n)
	}
}

// Databases that are made and dropped, as tests do, do not use the places up.
func TestADatabaseThatIsDroppedMakesRoom(t *testing.T) {
	c := labtest.Start(t, 1)
	super := superuser(t, c.Primary())
	exec(t, super, "CREATE DATABASE shortlived OWNER "+lab.User)
	exec(t, connect(t, c.Primary().DSNFor(lab.User, lab.Password, "shortlived")), "CREATE TABLE here (id int)")
	d := open(t, c, func(o *Options) { o.Most, o.Absent = 1, time.Millisecond })
	if o := judge.Judge("SELECT * FROM here", d.Of("shortlived")); o.Kind != verdict.Read {
		t.Fatalf("%+v", o)
	}
	d.wantChange(t, "shortlived")
	if _, ok := d.Of(lab.Database).(judge.Blind); !ok {
		t.Fatal("there is room for two")
	}
	exec(t, super, "DROP DATABASE shortlived WITH (FORCE)")
	d.wantChange(t, "shortlived") // what was said of its tables
	d.wantChange(t, lab.Database) // what was said for want of a place
	d.eventually(t, "SELECT relname FROM pg_class", verdict.Read)
	if n := d.log.count("only the first"); n != 1 {
		t.Errorf("the want of room is mentioned %d times", n)
	}
	d.wantChange(t, lab.Database)
	// It may come again, and has the place if it is free.
	if _, ok := d.Of("shortlived").(judge.Blind); !ok {
		t.Error("there is room for two now")
	}
}

// A large catalog is looked at so rarely that the last look is always long ago.
func TestOneFailedLookIsNoReasonToForget(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE t (id int)")
	d := open(t, c, func(o *Options) { o.Unconfirmed = patience })
	d.eventually(t, "SELECT * FROM t", verdict.Read)
	d.wantChange(t, lab.Database)
	w, _ := d.watch(lab.Database)
	w.mu.Lock()
	w.state.last = time.Now().Add(-2 * patience)
	looked := w.state.looked
	w.mu.Unlock()
	exec(t, super, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgpilot-classifier'")
	w.poke(pokeLook)
	await(looked, patience)
	if o := d.judge("SELECT * FROM t"); o.Kind != verdict.Read {
		t.Errorf("after a look that failed: %+v", o)
	}
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE u (id int)")
	d.eventually(t, "SELECT * FROM u", verdict.Read)
	select {
	case <-d.changed:
		t.Error("verdicts were dropped")
	default:
	}
}

func TestWithoutAPrimaryAStandbyIsAsked(t *testing.T) {
	c := labtest.Start(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE t (id int)")
	if err := c.WaitCaughtUp(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Primary().Kill(ctx); err != nil {
		t.Fatal(err)
	}
	d := open(t, c, nil)
	d.eventually(t, "SELECT * FROM t", verdict.Read)
}

// A former primary that is there still, or again, says nothing of the catalog any more.
func TestCatalogsAreReadWhereWritesGo(t *testing.T) {
	c := labtest.Start(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	former := c.Primary()
	exec(t, connect(t, former.DSN()), "CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'")
	exec(t, superuser(t, former), "CREATE DATABASE other OWNER "+lab.User)
	d := open(t, c, nil)
	d.eventually(t, "SELECT f()", verdict.Read)
	d.wantChange(t, lab.Database)
	if err := c.WaitCaughtUp(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Promote(ctx, 1); err != nil {
		t.Fatal(err)
	}
	primary := connect(t, c.Primary().DSN())
	exec(t, primary, "ALTER FUNCTION f() VOLATILE; CREATE TABLE since (id int)")
	d.Lead(c.Primary().Name)
	d.wantChange(t, lab.Database)
	if o := d.judge("SELECT f()"); o.Kind != verdict.Write {
		t.Error("a function that is volatile on the new primary is a read")
	}
	d.eventually(t, "SELECT * FROM since", verdict.Read)
	// One that is asked about only now is not looked for on the former one either.
	other := connect(t, c.Primary().DSNFor(lab.User, lab.Password, "other"))
	exec(t, other, "CREATE TABLE since (id int)")
	if o := judge.Judge("SELECT * FROM since", d.Of("other")); o.Kind != verdict.Read {
		t.Errorf("%+v", o)
	}
	// With no other to ask it is asked all the same.
	if err := c.Primary().Kill(ctx); err != nil {
		t.Fatal(err)
	}
	d.eventually(t, "SELECT f()", verdict.Read)
}

// What was said by a catalog that nobody can be asked about any more is not said for ever.
func TestVerdictsEndWhenNoCatalogCanBeRead(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE t (id int)")
	d := open(t, c, func(o *Options) { o.Unconfirmed = time.Millisecond })
	d.eventually(t, "SELECT * FROM t", verdict.Read)
	d.wantChange(t, lab.Database)
	exec(t, super, "REVOKE CONNECT ON DATABASE "+lab.Database+" FROM PUBLIC, "+lab.User)
	exec(t, super, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgpilot-classifier'")
	d.wantChange(t, lab.Database)
	if o := d.judge("SELECT * FROM t"); o.Kind != verdict.Write {
		t.Error("a table that cannot be looked at is read")
	}
	exec(t, super, "GRANT CONNECT ON DATABASE "+lab.Database+" TO PUBLIC")
	d.wantChange(t, lab.Database)
	d.eventually(t, "SELECT * FROM t", verdict.Read)
}

// A server that lets the monitor in and does not let it read says as little.
func TestVerdictsEndWhenTheCatalogMayNotBeRead(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE t (id int)")
	d := open(t, c, func(o *Options) { o.Unconfirmed = time.Millisecond })
	d.eventually(t, "SELECT * FROM t", verdict.Read)
	d.wantChange(t, lab.Database)
	exec(t, super, "REVOKE SELECT ON pg_catalog.pg_proc FROM PUBLIC")
	d.wantChange(t, lab.Database)
	if o := d.judge("SELECT * FROM t"); o.Kind != verdict.Write {
		t.Error("a table that cannot be looked at is read")
	}
	exec(t, super, "GRANT SELECT ON pg_catalog.pg_proc TO PUBLIC")
	d.wantChange(t, lab.Database)
	d.eventually(t, "SELECT * FROM t", verdict.Read)
}

func TestNobodyWaitsForADeadServer(t *testing.T) {
	c := labtest.Start(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Primary().Kill(ctx); err != nil {
		t.Fatal(err)
	}
	d := open(t, c, nil)
	if _, ok := d.Of(lab.Database).(judge.Blind); !ok {
		t.Error("known without a server")
	}
	d.Close()
	if _, ok := d.Of("another").(judge.Blind); !ok {
		t.Error("known after the end")
	}
}

// A cast between two types of PostgreSQL's own can run in any statement unseen.
func TestAnUnseenCastSpoilsEverything(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	exec(t, super, `CREATE FUNCTION to_point(int) RETURNS point LANGUAGE sql VOLATILE AS 'SELECT point($1, $1)'`)
	d := open(t, c, nil)
	d.eventually(t, "SELECT 1", verdict.Read)
	d.wantChange(t, lab.Database)
	exec(t, super, "CREATE CAST (int AS point) WITH FUNCTION to_point(int) AS IMPLICIT")
	d.Look(lab.Database)
	d.wantChange(t, lab.Database)
	if o := d.judge("SELECT 1"); o.Kind != verdict.Write {
		t.Errorf("%+v", o)
	}
	exec(t, super, "ALTER FUNCTION to_point(int) STABLE")
	d.eventually(t, "SELECT 1", verdict.Read)
}

// Extensions are C functions that say of themselves that they are immutable.
func TestCommonExtensionsRead(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	var there []string
	for _, extension := range []string{"citext", "hstore", "pg_trgm", "btree_gin", "ltree", "cube", "earthdistance", "unaccent", "pgcrypto",
		"dblink", "tablefunc"} {
		if _, err := super.Exec(t.Context(), "CREATE EXTENSION "+extension); err != nil {
			t.Logf("not installed here: %s", extension)
			continue
		}
		there = append(there, extension)
	}
	s := read(t, c)
	for extension, texts := range map[string][]string{
		"citext":        {"SELECT 'A'::citext = 'a'", "SELECT replace('A'::citext, 'a', 'b')"},
		"hstore":        {"SELECT 'a=>1'::hstore -> 'a', ('a=>1'::hstore)['a']", "SELECT * FROM each('a=>1'::hstore)"},
		"pg_trgm":       {"SELECT similarity('a', 'b'), 'a' <-> 'b'", "SELECT 'a' % 'b', 'a' %> 'b', 7 % 2"},
		"unaccent":      {"SELECT unaccent('a')"},
		"pgcrypto":      {"SELECT digest('a', 'sha256'), gen_salt('bf')"},
		"ltree":         {"SELECT 'a.b'::ltree @> 'a.b.c'"},
		"cube":          {"SELECT cube(1) <-> cube(2)"},
		"earthdistance": {"SELECT earth_distance(ll_to_earth(1, 2), ll_to_earth(3, 4))"},
	} {
		if !slices.Contains(there, extension) {
			continue
		}
		for _, text := range texts {
			if o := judge.Judge(text, s); o.Kind != verdict.Read {
				t.Errorf("%s: %s: %s", extension, text, o.Reason)
			}
		}
	}
	for extension, text := range map[string]string{
		"pg_trgm": "SELECT set_limit(0.5)", "dblink": "SELECT * FROM dblink('') AS x(a int)", "tablefunc": "SELECT * FROM crosstab2('')",
	} {
		if o := judge.Judge(text, s); slices.Contains(there, extension) && (o.Kind != verdict.Write || o.Unknown) {
			t.Errorf("%s: %s: %+v", extension, text, o)
		}
	}
	for _, text := range []string{"SELECT 1 = 1 AND 'a' || 'b' > 'c'", "SELECT 'a'::text, now()"} {
		if o := judge.Judge(text, s); o.Kind != verdict.Read {
			t.Errorf("extensions spoil %s: %s", text, o.Reason)
		}
	}
}
