package readcheck

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	pgquery "github.com/pganalyze/pg_query_go/v6"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/builtin"
	"github.com/pgpilot/pgpilot/services/classifier/internal/catalog"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

var whole = flag.Bool("whole", false, "run all reads of the corpus, not those of a sample")

const (
	// sample is how many statements are looked at where not all are.
	sample = 1200
	// batch is how many reads run between two looks at what they have left.
	batch = 100
	// patience bounds what a test waits for.
	patience = time.Minute
)

// TestReadsAnswerTheSameEverywhere runs what is judged a read on a primary and on a
// replica, as the ordinary user and as a superuser.
func TestReadsAnswerTheSameEverywhere(t *testing.T) {
	c := labtest.Start(t, 1)
	ctx := t.Context()
	su := connect(ctx, t, c.Primary().SuperDSN())
	for _, sql := range []string{read(t, "../catalog/testdata/schema.sql"), read(t, "../catalog/testdata/writes.sql"),
		"ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()", "ANALYZE"} {
		if _, err := su.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	statements := some
	if *whole {
		statements = corpus
	}
	all := statements(ctx, t, su)
	known := lookInto(t, c)
	var reads []string
	for _, text := range all {
		if judge.Judge(text, known).Kind == verdict.Read {
			reads = append(reads, text)
		}
	}
	if len(reads) < len(all)/2 {
		t.Fatalf("only %d of %d statements read: the test shows little", len(reads), len(all))
	}
	if err := c.WaitCaughtUp(ctx); err != nil {
		t.Fatal(err)
	}
	for name, dsn := range map[string]func(*lab.Member) string{"superuser": (*lab.Member).SuperDSN, "user": (*lab.Member).DSN} {
		t.Run(name, func(t *testing.T) {
			p := pair{t: t, primary: open(ctx, t, dsn(c.Primary())), replica: open(ctx, t, dsn(c.Replica(1)))}
			for at := 0; at < len(reads); at += batch {
				p.batch(ctx, reads[at:min(at+batch, len(reads))])
			}
			t.Logf("%d statements, %d of them reads: %d with an answer, %d with an error, %d not compared", len(all), len(reads),
				p.answered, p.refused, p.volatile)
			if p.answered < len(reads)/2 {
				t.Errorf("only %d of %d reads were answered: the test shows little", p.answered, len(reads))
			}
		})
	}
}

// lookInto gives what a classifier knows of the lab's database.
func lookInto(t *testing.T, c *lab.Cluster) judge.Catalog {
	t.Helper()
	m, err := catalog.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	login := catalog.Login{Monitor: config.Monitor{User: lab.User, Password: lab.Password}}
	for _, m := range c.Members() {
		login.Servers = append(login.Servers, catalog.Server{Name: m.Name, Server: dial.Server{Host: m.Host, Port: uint16(m.Port)}})
	}
	l := catalog.New(catalog.Options{Login: login, Parse: pgquery.Parse, Wait: patience, Most: 1, Metrics: m,
		Changed: func(string) {}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(l.Close)
	known := l.Of(lab.Database)
	if s, ok := known.(judge.Static); ok {
		t.Fatalf("nothing is known of the database: %+v", s)
	}
	return known
}

// pair is a session on each of two servers.
type pair struct {
	t                           *testing.T
	primary, replica            *session
	answered, refused, volatile int
}

// batch compares the answers to some reads, and looks at what they have left.
func (p *pair) batch(ctx context.Context, reads []string) {
	p.t.Helper()
	before := p.state(ctx)
	for _, text := range reads {
		p.compare(ctx, text)
	}
	after := p.state(ctx)
	if after == before {
		return
	}
	// Once more, on sessions that have nothing yet, to see who it was.
	p.again(ctx)
	found := false
	for _, text := range reads {
		before := p.state(ctx)
		_ = p.primary.run(ctx, text)
		_ = p.replica.run(ctx, text)
		if after := p.state(ctx); after != before {
			found = true
			p.t.Errorf("%q is judged a read\n\tbefore: %+v\n\tafter:  %+v", text, before, after)
			p.again(ctx)
		}
	}
	// A transaction that none of them begins again was the server's own.
	if after.next = before.next; !found && after != before {
		p.t.Errorf("one of %q and so on has left something, once\n\tbefore: %+v\n\tafter:  %+v", reads[0], before, after)
	}
}

// again connects anew.
func (p *pair) again(ctx context.Context) {
	p.t.Helper()
	p.primary.again(ctx, p.t)
	p.replica.again(ctx, p.t)
}

func (p *pair) compare(ctx context.Context, text string) {
	want, got := p.primary.run(ctx, text), p.replica.run(ctx, text)
	switch {
	case want.same(got):
	case want.code == got.code && unsteady(text), !want.same(p.primary.run(ctx, text)):
		p.volatile++
		return
	default:
		p.t.Errorf("%q is judged a read\n\ton the primary: %s\n\ton the replica: %s", text, want, got)
	}
	if want.code == "" {
		p.answered++
	} else {
		p.refused++
	}
}

// unsteady reports whether a statement calls a function whose answer nobody can rely on,
// takes a sample, or asks for a plan: which index is cheaper depends, among others, on
// what a server has in memory.
func unsteady(text string) bool {
	lexer := sqltoken.NewLexer([]byte(text), 18)
	for {
		t, err := lexer.Next()
		if err != nil || t.Kind == sqltoken.EOF {
			return false
		}
		name := strings.ToLower(strings.Trim(text[t.Start:t.End], `"`))
		if name == "explain" || name == "tablesample" {
			return true
		}
		if f, ok := builtin.Named(name); ok && f.Group == builtin.Harmless {
			return true
		}
	}
}

// state is the primary's next transaction, and what each session has that later
// statements could find.
type state struct{ next, primary, replica string }

func (p *pair) state(ctx context.Context) (s state) {
	p.t.Helper()
	if err := p.primary.conn.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text").Scan(&s.next); err != nil {
		p.t.Fatal(err)
	}
	s.primary, s.replica = p.primary.state(ctx), p.replica.state(ctx)
	return s
}

// session is a connection to one server.
type session struct {
	t    *testing.T
	dsn  string
	conn *pgx.Conn
}

func open(ctx context.Context, t *testing.T, dsn string) *session {
	s := &session{t: t, dsn: dsn}
	s.again(ctx, t)
	return s
}

// again connects anew.
func (s *session) again(ctx context.Context, t *testing.T) {
	t.Helper()
	if s.conn != nil {
		_ = s.conn.Close(ctx)
	}
	s.conn = connect(ctx, t, s.dsn)
}

func connect(ctx context.Context, t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Database = lab.Database
	cfg.RuntimeParams = map[string]string{"application_name": "readcheck", "statement_timeout": "60s", "search_path": "public"}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// stateSQL gives what a session has that a later statement could find.
const stateSQL = `SELECT concat_ws(' | ',
	(SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings WHERE source = 'session' OR name LIKE 'a.%'),
	(SELECT count(*) || ' locks' FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
	(SELECT count(*) || ' statements' FROM pg_prepared_statements), (SELECT count(*) || ' cursors' FROM pg_cursors WHERE is_holdable),
	(SELECT count(*) || ' channels' FROM pg_listening_channels()), 'temporary ' || pg_my_temp_schema(), current_user,
	current_setting('a.b', true))`

func (s *session) state(ctx context.Context) string {
	s.t.Helper()
	var state string
	if err := s.conn.QueryRow(ctx, stateSQL).Scan(&state); err != nil {
		s.t.Fatal(err)
	}
	return state
}

// answer is what a server has said.
type answer struct {
	code string
	rows int
	// sum does not depend on the order of rows.
	sum uint64
	// first is a row to show.
	first string
}

// same leaves the row to show out: it depends on their order.
func (a answer) same(b answer) bool { return a.code == b.code && a.rows == b.rows && a.sum == b.sum }

func (a answer) String() string {
	if a.code != "" {
		return "error " + a.code
	}
	return fmt.Sprintf("%d rows, the first %s", a.rows, a.first)
}

// run executes a text.
func (s *session) run(ctx context.Context, text string) (a answer) {
	var err error
	if o := judge.Bare(text); strings.HasPrefix(strings.ToLower(strings.TrimSpace(o)), "copy") {
		h := fnv.New64a()
		var tag pgconn.CommandTag
		if tag, err = s.conn.PgConn().CopyTo(ctx, h, text); err == nil {
			return answer{rows: int(tag.RowsAffected()), sum: h.Sum64(), first: "copied"}
		}
	} else {
		results := s.conn.PgConn().Exec(ctx, text)
		for results.NextResult() {
			r := results.ResultReader()
			for r.NextRow() {
				h := fnv.New64a()
				for _, v := range r.Values() {
					fmt.Fprintf(h, "%d:", len(v))
					_, _ = h.Write(v)
				}
				if a.rows++; a.rows == 1 {
					a.first = fmt.Sprintf("%.100q", r.Values())
				}
				a.sum += h.Sum64()
			}
			_, _ = r.Close() // the error comes with that of all results
		}
		err = results.Close()
	}
	if err == nil {
		return a
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return answer{code: refused.Code}
	case errors.Is(err, io.ErrUnexpectedEOF), s.conn.IsClosed():
		s.again(ctx, s.t)
	}
	s.t.Errorf("%q: %v", text, err)
	return answer{code: "lost"}
}
