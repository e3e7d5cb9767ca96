package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

func TestCopy(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must("CREATE TABLE rows (id int PRIMARY KEY, text text)")
	works := func(t *testing.T, want string) {
		t.Helper()
		r.caughtUp() // another session may have written, which no fence of this one covers
		if got := c.one("SELECT count(*) FROM rows"); got != want {
			t.Errorf("%s rows afterwards, want %s", got, want)
		}
		c.must("DELETE FROM rows")
		if got := c.one("SELECT count(*) FROM rows"); got != "0" {
			t.Errorf("%s rows after the delete", got)
		}
	}
	from := func(data io.Reader) error {
		_, err := c.conn.CopyFrom(timeout(t), data, "COPY rows FROM STDIN")
		return err
	}

	t.Run("in", func(t *testing.T) {
		var data strings.Builder
		for n := range 100000 {
			fmt.Fprintf(&data, "%d\tsome text of row %d\n", n, n)
		}
		if err := from(strings.NewReader(data.String())); err != nil {
			t.Fatal(err)
		}
		works(t, "100000")
	})
	t.Run("in, given up by the client", func(t *testing.T) {
		gaveUp := errors.New("no more data")
		err := from(io.MultiReader(strings.NewReader("1\ta\n2\tb\n"), failingReader{gaveUp}))
		if !errors.Is(err, gaveUp) && sqlstate(err) != "57014" {
			t.Errorf("got %v", err)
		}
		if c.gone() {
			t.Fatal("the session is gone")
		}
		works(t, "0")
	})
	t.Run("in, refused at once", func(t *testing.T) {
		_, err := c.conn.CopyFrom(timeout(t), strings.NewReader("1\ta\n"), "COPY nowhere FROM STDIN")
		if sqlstate(err) != "42P01" {
			t.Errorf("got %v", err)
		}
		works(t, "0")
	})
	t.Run("in, refused while the client is still sending", func(t *testing.T) {
		var data strings.Builder
		data.WriteString("1\ta\nnot a number\tb\n")
		for n := range 200000 {
			fmt.Fprintf(&data, "%d\tmore than fits into the sockets' buffers\n", n+2)
		}
		for range 5 {
			if err := from(strings.NewReader(data.String())); sqlstate(err) != "22P02" {
				t.Fatalf("got %v", err)
			}
		}
		works(t, "0")
	})
	t.Run("in, refused at the end", func(t *testing.T) {
		if err := from(strings.NewReader("1\ta\n1\tb\n")); sqlstate(err) != "23505" {
			t.Errorf("got %v", err)
		}
		works(t, "0")
	})
	t.Run("in, inside a transaction", func(t *testing.T) {
		c.must("BEGIN")
		if err := from(strings.NewReader("1\ta\n2\tb\n")); err != nil {
			t.Fatal(err)
		}
		c.must("ROLLBACK")
		works(t, "0")
	})
	t.Run("in and out among other statements of one string", func(t *testing.T) {
		if _, err := c.conn.CopyFrom(timeout(t), strings.NewReader("1\ta\n"), "SELECT 1; COPY rows FROM STDIN; SELECT 2"); err != nil {
			t.Fatal(err)
		}
		works(t, "1")
	})
	t.Run("out", func(t *testing.T) {
		c.must("INSERT INTO rows SELECT g, 'row ' || g FROM generate_series(1, 50000) g")
		var direct, through strings.Builder
		d, err := dial(t, cluster.Primary().DSN())
		if err != nil {
			t.Fatal(err)
		}
		const sql = "COPY (SELECT * FROM rows ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER)"
		if _, err := d.conn.CopyTo(timeout(t), &direct, sql); err != nil {
			t.Fatal(err)
		}
		tag, err := c.conn.CopyTo(timeout(t), &through, sql)
		if err != nil {
			t.Fatal(err)
		}
		if tag.String() != "COPY 50000" || through.String() != direct.String() {
			t.Errorf("%s, %d bytes instead of %d", tag, through.Len(), direct.Len())
		}
		r.caughtUp()
		r.until("a copy runs on a replica", func() bool {
			var b strings.Builder
			if _, err := c.conn.CopyTo(timeout(t), &b, sql); err != nil || b.String() != direct.String() {
				t.Fatalf("%d bytes instead of %d, %v", b.Len(), direct.Len(), err)
			}
			return c.route().Role == "replica"
		})
		works(t, "50000")
	})
	t.Run("out, failing in the middle", func(t *testing.T) {
		_, err := c.conn.CopyTo(timeout(t), io.Discard, "COPY (SELECT 1000 / (5000 - g), repeat('x', 100) FROM generate_series(1, 10000) g) TO STDOUT")
		if sqlstate(err) != "22012" {
			t.Errorf("got %v", err)
		}
		works(t, "0")
	})
	t.Run("binary, with pgx", func(t *testing.T) {
		p := r.Connect(t) // speaks the extended protocol to prepare, then copies
		n, err := p.CopyFrom(timeout(t), pgx.Identifier{"rows"}, []string{"id", "text"}, pgx.CopyFromSlice(1000, func(i int) ([]any, error) {
			return []any{i, fmt.Sprint("row ", i)}, nil
		}))
		if err != nil || n != 1000 {
			t.Fatalf("%d rows, %v", n, err)
		}
		var count int
		if err := p.QueryRow(timeout(t), "SELECT count(*) FROM rows").Scan(&count); err != nil || count != 1000 {
			t.Errorf("%d rows, %v", count, err)
		}
		works(t, "1000")
	})
	t.Run("psql", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "rows.tsv")
		if err := os.WriteFile(file, []byte("1\teins\n2\tzwei\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out := r.psql(fmt.Sprintf(`\copy rows FROM '%s'
\copy (SELECT text FROM rows ORDER BY id) TO STDOUT
SELECT count(*) FROM rows;
COPY rows FROM STDIN;
3	drei
\.
SELECT text FROM rows WHERE id = 3;
`, file))
		if want := "eins\nzwei\n2\ndrei"; out != want {
			t.Errorf("psql prints\n%s\nwant\n%s", out, want)
		}
		works(t, "3")
	})
}

// TestStatementsInsideACopy: what has no place in copied data ends the connection, with what a
// server says of it.
func TestStatementsInsideACopy(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	good := &pgproto3.CopyData{Data: []byte("1\t7\n")}
	simple := []pgproto3.FrontendMessage{&pgproto3.Query{String: "COPY basket FROM STDIN"}, good}
	extended := []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "COPY basket FROM STDIN"}, &pgproto3.Bind{}, &pgproto3.Execute{}, good}
	for _, c := range []struct {
		name   string
		copies []pgproto3.FrontendMessage
		inside pgproto3.FrontendMessage
	}{
		{"a query", simple, &pgproto3.Query{String: "SELECT 1"}},
		{"a parse", simple, &pgproto3.Parse{Name: "s", Query: "SELECT 1"}},
		{"a function call", simple, &pgproto3.FunctionCall{Function: 177}},
		{"a query in an extended one", extended, &pgproto3.Query{String: "SELECT 1"}},
		{"a bind in an extended one", extended, &pgproto3.Bind{PreparedStatement: "s"}},
	} {
		through, straight := r.twins(t)
		batch := append(append([]pgproto3.FrontendMessage{}, c.copies...), c.inside)
		want, got := straight.last(batch), through.last(batch)
		if w, g := place.ReplaceAllString(strings.Join(want, "\n"), ""), place.ReplaceAllString(strings.Join(got, "\n"), ""); w != g {
			t.Errorf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", c.name, w, g)
		}
	}
	c := r.connect()
	c.must("SELECT 1")
}

// failingReader has nothing to give but an error.
type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// toEnd sends messages, of which the last is a query that names a column "end", and gives the
// answer up to that of this query, or up to the end of the connection.
func (w *wire) toEnd(messages []pgproto3.FrontendMessage) string {
	w.t.Helper()
	var all []string
	for {
		answer, err := w.exchange(messages, 1)
		messages = nil
		all = append(all, answer...)
		if err != nil {
			all = append(all, "the end")
		}
		if err != nil || slices.ContainsFunc(answer, func(l string) bool { return strings.HasPrefix(l, "T ") && strings.Contains(l, "end|") }) {
			return place.ReplaceAllString(strings.Join(all, "\n"), "")
		}
	}
}

// A Sync in the data of a copy is ignored, and answered if the copy had failed by then. What
// follows is executed, discarded or ends the connection, which is the server's to say
// (rule 30).
func TestSyncsInsideACopy(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	type batch = []pgproto3.FrontendMessage
	good, bad := &pgproto3.CopyData{Data: []byte("1\t7\n")}, &pgproto3.CopyData{Data: []byte("1\t7\t8\n")}
	begun, rest := &pgproto3.CopyData{Data: []byte("1\t7\t8")}, &pgproto3.CopyData{Data: []byte("\n")}
	sync, done, fail := &pgproto3.Sync{}, &pgproto3.CopyDone{}, &pgproto3.CopyFail{Message: "enough"}
	parse := &pgproto3.Parse{Name: "s", Query: "SELECT 1"}
	next := batch{parse, &pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, sync}
	others := []batch{next, {&pgproto3.Query{String: "SELECT 2"}, sync}, {&pgproto3.Close{ObjectType: 'S', Name: "s"}, sync}, {&pgproto3.Flush{}, sync}, {&pgproto3.Parse{Name: "s", Query: "DEALLOCATE ALL"}, &pgproto3.Parse{Query: "SELEC 1"}, sync}}
	for _, data := range []batch{
		{bad, sync}, {good, sync, bad}, {good, sync, bad, sync}, {bad, sync, sync}, {bad, sync, good, sync, bad, sync}, {good, sync, bad, done}, {bad, sync, done}, {bad, sync, fail}, {sync, good, done},
		{sync, bad, done}, {begun, sync, rest}, {begun, sync, rest, sync}, {good, sync, sync, fail}, {good, sync, done}, {good, sync}, {begun, sync}, {sync}, {sync, sync, bad}, {sync, sync, bad, sync},
	} {
		for _, begin := range []string{"", "BEGIN; SELECT 1"} {
			for _, behind := range others {
				through, straight := r.twins(t)
				all := batch{&pgproto3.Query{String: begin}, &pgproto3.Parse{Query: "COPY basket FROM STDIN"}, &pgproto3.Bind{}, &pgproto3.Execute{}}
				all = append(append(append(all, data...), behind...), &pgproto3.Query{String: "ROLLBACK"}, &pgproto3.Query{String: "SELECT 3 AS end"})
				want, got := straight.toEnd(all), through.toEnd(all)
				if want != got {
					t.Fatalf("%s\ndirect:\n%s\nthrough pgpilot:\n%s", text(all), want, got)
				}
				_, _ = through.conn.Conn.Close(), straight.conn.Conn.Close()
			}
		}
	}
}
