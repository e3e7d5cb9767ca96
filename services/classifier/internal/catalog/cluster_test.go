package catalog

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// entry is a line of testdata/verdicts.txt, or of the judge's.
type line struct {
	number            int
	kind              verdict.Kind
	effects           verdict.Effect
	volatile, unknown bool
	text              string
}

func corpus(t *testing.T, path string) []line {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []line
	for i, text := range strings.Split(string(data), "\n") {
		if text == "" || text[0] == '#' {
			continue
		}
		head, sql, ok := strings.Cut(text, "|")
		words := strings.Fields(head)
		if !ok || len(words) == 0 {
			t.Fatalf("line %d has no verdict: %s", i+1, text)
		}
		l := line{number: i + 1, text: strings.TrimPrefix(sql, " ")}
		if l.kind, err = verdict.ParseKind(words[0]); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		flag := func(name string) bool {
			n := slices.Index(words, name)
			if n >= 0 {
				words = slices.Delete(words, n, n+1)
			}
			return n >= 0
		}
		l.volatile, l.unknown = flag("volatile"), flag("unknown")
		flag("since16")
		if l.effects, err = verdict.ParseEffects(words[1:]); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		out = append(out, l)
	}
	return out
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func exec(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%.60s: %v", sql, err)
	}
}

// superuser of the lab's own database.
func superuser(t *testing.T, m *lab.Member) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(m.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Database = lab.Database
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func read(t *testing.T, c *lab.Cluster, reads ...string) *Snapshot {
	t.Helper()
	conn, err := login(c).connect(t.Context(), lab.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	start := time.Now()
	contents, _, err := readContents(t.Context(), conn.Conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("read in %v: %d functions, %d relations, %d dependencies", time.Since(start), len(contents.functions), len(contents.relations), len(contents.depends))
	start = time.Now()
	s := compile(contents, newBodies(pgquery.Parse), readSet(reads))
	t.Logf("compiled in %v", time.Since(start))
	return s
}

func login(c *lab.Cluster) *Login {
	l := &Login{Monitor: config.Monitor{User: lab.User, Password: lab.Password}}
	for _, m := range c.Members() {
		l.Servers = append(l.Servers, Server{Name: m.Name, Server: dial.Server{Host: m.Host, Port: uint16(m.Port)}})
	}
	return l
}

// TestVerdictsOfARealCatalog judges a corpus over a schema of traps, runs every
// read on a replica, and compares with the primary.
func TestVerdictsOfARealCatalog(t *testing.T) {
	c := labtest.Start(t, 1)
	for _, file := range []string{"testdata/schema.sql", "testdata/writes.sql"} {
		schema, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, superuser(t, c.Primary()), string(schema))
	}
	s := read(t, c)
	lines := corpus(t, "testdata/verdicts.txt")
	if len(lines) < 150 {
		t.Fatalf("only %d lines: the file is not read whole", len(lines))
	}
	for _, l := range lines {
		o := judge.Judge(l.text, s)
		if o.Kind != l.kind || o.Effects != l.effects || o.Unknown != l.unknown {
			t.Errorf("line %d: %s\n\tgot %v %v unknown %v (%s), want %v %v", l.number, l.text, o.Kind, o.Effects, o.Unknown, o.Reason, l.kind, l.effects)
		}
	}
	sameAnswers(t, c, s, lines)
}

// A Parse may name the types of its parameters by number; what is bound to one of a
// domain runs its checks, whatever the text says.
func TestTypesOfParametersByNumber(t *testing.T) {
	c := labtest.Start(t, 0)
	su := superuser(t, c.Primary())
	exec(t, su, `CREATE FUNCTION lying() RETURNS boolean LANGUAGE sql STABLE AS $$SELECT set_config('a.b', 'c', false) IS NOT NULL$$;
		CREATE DOMAIN watched AS int CHECK (lying());
		CREATE TYPE mood AS ENUM ('sad', 'ok')`)
	s := read(t, c)
	var watched, array, mood uint32
	if err := su.QueryRow(t.Context(), "SELECT 'watched'::regtype::oid, 'watched[]'::regtype::oid, 'mood'::regtype::oid").Scan(&watched, &array, &mood); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		types   []uint32
		kind    verdict.Kind
		effects verdict.Effect
		unknown bool
	}{
		"PostgreSQL's":   {[]uint32{23, 0}, verdict.Read, 0, false},
		"an enum":        {[]uint32{mood}, verdict.Read, 0, false},
		"a domain":       {[]uint32{mood, watched}, verdict.Write, verdict.Session, false},
		"an array of it": {[]uint32{array}, verdict.Write, verdict.Session, false},
		"one made since": {[]uint32{4_000_000_000}, verdict.Write, verdict.Unproven, true},
	} {
		text, another := verdict.AppendTyped(nil, []byte("SELECT $1, $2"), c.types)
		if !another {
			text = []byte("SELECT $1, $2")
		}
		if o := judge.Judge(string(text), s); o.Kind != c.kind || o.Effects != c.effects || o.Unknown != c.unknown {
			t.Errorf("%s: %s\n\tgot %v %v unknown %v (%s)", name, text, o.Kind, o.Effects, o.Unknown, o.Reason)
		}
	}
}

// Where rows are converted to another type implicitly, what looks like a column of a row
// may be a call of any function of that type: t.pg_advisory_lock takes a lock.
func TestRowsThatAreConvertedImplicitly(t *testing.T) {
	c := labtest.Start(t, 0)
	su := superuser(t, c.Primary())
	exec(t, su, `CREATE TABLE t (id int, v text);
		CREATE FUNCTION number(t) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT $1.id::bigint';
		CREATE CAST (t AS bigint) WITH FUNCTION number(t) AS ASSIGNMENT`)
	const call = "SELECT t.pg_advisory_lock FROM t"
	before := read(t, c)
	if o := judge.Judge(call, before); o.Kind != verdict.Read {
		t.Errorf("%s: a write because of %s, though it cannot be a call", call, o.Reason)
	}
	exec(t, su, "DROP CAST (t AS bigint); CREATE CAST (t AS bigint) WITH FUNCTION number(t) AS IMPLICIT; INSERT INTO t VALUES (1, 'x')")
	after := read(t, c)
	if o := judge.Judge(call, after); o.Kind != verdict.Write || !o.Effects.Has(verdict.Session) {
		t.Errorf("%s: %v %v", call, o.Kind, o.Effects)
	}
	if o := judge.Judge("SELECT t.id, t.v FROM t", after); o.Kind != verdict.Read {
		t.Errorf("columns: a write because of %s", o.Reason)
	}
	if !before.Spoils(after) {
		t.Error("the verdicts from before the cast are kept")
	}
	exec(t, su, call)
	var locks int
	if err := su.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&locks); err != nil || locks != 1 {
		t.Errorf("the call took %d locks (%v): the test shows nothing", locks, err)
	}
}

// TestTheJudgesCorpus runs the reads of the judge's own table against a catalog
// without traps.
func TestTheJudgesCorpus(t *testing.T) {
	c := labtest.Start(t, 1)
	fixture, err := os.ReadFile("../judge/testdata/fixture.sql")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, connect(t, c.Primary().DSN()), string(fixture))
	s := read(t, c)
	lines := corpus(t, "../judge/testdata/verdicts.txt")
	for _, l := range lines {
		o := judge.Judge(l.text, s)
		if l.kind == verdict.Read && o.Kind != verdict.Read {
			t.Errorf("line %d: %s\n\ta write because of %s", l.number, l.text, o.Reason)
		}
		if missing := l.effects &^ o.Effects; missing != 0 && !l.effects.Has(verdict.Unparsable) && missing != verdict.Unproven {
			t.Errorf("line %d: %s\n\tlacks %v", l.number, l.text, missing)
		}
	}
	sameAnswers(t, c, s, lines)
}

// sameAnswers runs whatever is judged a read on both servers.
func sameAnswers(t *testing.T, c *lab.Cluster, s *Snapshot, lines []line) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := c.WaitCaughtUp(ctx); err != nil {
		t.Fatal(err)
	}
	primary, replica := connect(t, c.Primary().DSN()).PgConn(), connect(t, c.Replica(1).DSN()).PgConn()
	compared := 0
	for _, l := range lines {
		if judge.Judge(l.text, s).Kind != verdict.Read {
			continue
		}
		want, err := run(ctx, primary, l.text)
		if err != nil {
			if l.kind == verdict.Read && !strings.Contains(err.Error(), "42601") {
				t.Errorf("line %d: %s\n\tdoes not run on the primary: %v", l.number, l.text, err)
			}
			continue
		}
		got, err := run(ctx, replica, l.text)
		switch {
		case err != nil:
			t.Errorf("line %d: %s\n\tdoes not run on a replica: %v", l.number, l.text, err)
		case !l.volatile && l.kind == verdict.Read && got != want:
			t.Errorf("line %d: %s\n\tanswers %s on the replica, %s on the primary", l.number, l.text, got, want)
		}
		compared++
	}
	if compared < 50 {
		t.Fatalf("only %d reads compared", compared)
	}
	// Nothing of all that may have left a trace.
	for _, conn := range []*pgconn.PgConn{primary, replica} {
		left, err := run(ctx, conn, "SELECT coalesce(current_setting('a.b', true), ''), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())")
		if err != nil || !strings.Contains(left, `["" "0"]`) {
			t.Errorf("the reads left %s (%v)", left, err)
		}
	}
}

// run gives the results of a simple-query string as sorted rows of text.
func run(ctx context.Context, c *pgconn.PgConn, sql string) (string, error) {
	if strings.HasPrefix(sql, "COPY") {
		var b strings.Builder
		tag, err := c.CopyTo(ctx, &b, sql)
		return tag.String() + b.String(), err
	}
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

// A user's function of the name set_config is no setting, whatever its last argument.
func TestNamesakesOfSetConfig(t *testing.T) {
	c := labtest.Start(t, 0)
	exec(t, superuser(t, c.Primary()), `CREATE SCHEMA s; SET search_path = public, s; CREATE TABLE log (id int); CREATE TABLE quiet_log (id int);
		CREATE SEQUENCE seq;
		CREATE FUNCTION s.set_config(text, int, bool) RETURNS text LANGUAGE sql VOLATILE AS $$SELECT nextval('seq')::text$$;
		CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('a.b', 1, true); RETURN NEW; END$$;
		CREATE TRIGGER x BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION fires();
		CREATE FUNCTION fires_quietly() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_catalog.set_config('a.b', '1', true); RETURN NEW; END$$;
		CREATE TRIGGER x BEFORE INSERT ON quiet_log FOR EACH ROW EXECUTE FUNCTION fires_quietly();
		CREATE FUNCTION in_sql() RETURNS text LANGUAGE sql VOLATILE AS $$SELECT set_config('a.b', 1, true)$$`)
	s := read(t, c)
	for text, want := range map[string]verdict.Effect{
		"SELECT set_config('a.b', 1, true)":              verdict.Sequences | verdict.Unproven,
		"SELECT s.set_config('a.b', 1, true)":            verdict.Sequences,
		"SELECT pg_catalog.set_config('a.b', '1', true)": verdict.Unproven,
		"SELECT set_config('a.b', 1, false)":             verdict.Sequences | verdict.Session,
		"INSERT INTO log VALUES (1)":                     verdict.Sequences,
		"INSERT INTO quiet_log VALUES (1)":               0,
		"SELECT in_sql()":                                verdict.Sequences,
	} {
		if o := judge.Judge(text, s); o.Kind != verdict.Write || o.Effects != want {
			t.Errorf("%s: %v %v, want %v", text, o.Kind, o.Effects, want)
		}
	}
	for text, followed := range map[string]bool{
		"SELECT set_config('a.b', '1', false)":            false,
		"SELECT pg_catalog.set_config('a.b', '1', false)": true,
	} {
		o := judge.Judge(text, s)
		if got := o.Detail != nil && o.Detail.Parts[0].Settings != nil; got != followed {
			t.Errorf("%s: taken for a setting: %v", text, got)
		}
	}
}
