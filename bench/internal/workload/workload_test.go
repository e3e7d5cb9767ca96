package workload

import (
	"bytes"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

const testRows = 200_000

// decode reads requests as a server does and gives the names of the messages.
func decode(t *testing.T, b []byte) []pgproto3.FrontendMessage {
	t.Helper()
	backend := pgproto3.NewBackend(bytes.NewReader(b), nil)
	var out []pgproto3.FrontendMessage
	for {
		m, err := backend.Receive()
		if err != nil {
			return out
		}
		switch m := m.(type) { // the next Receive overwrites it
		case *pgproto3.Query:
			c := *m
			out = append(out, &c)
		case *pgproto3.Parse:
			c := *m
			out = append(out, &c)
		case *pgproto3.Bind:
			c := *m
			c.Parameters = nil
			for _, p := range m.Parameters {
				c.Parameters = append(c.Parameters, bytes.Clone(p))
			}
			out = append(out, &c)
		case *pgproto3.Describe:
			c := *m
			out = append(out, &c)
		default:
			out = append(out, m)
		}
	}
}

func TestSimplePutsValuesInTheText(t *testing.T) {
	s := newStatement("s", "SELECT $2 + $1, $2")
	b := Simple.appendSync(Simple.appendStatement(nil, s, []int64{7, -3, 0, 0}))
	got := decode(t, b)
	if len(got) != 1 {
		t.Fatalf("%d messages", len(got))
	}
	if q := got[0].(*pgproto3.Query).String; q != "SELECT -3 + 7, -3" {
		t.Errorf("the text is %q", q)
	}
}

func TestExtendedAndPrepared(t *testing.T) {
	s := newStatement("s", "SELECT $1, $2")
	args := []int64{12, -3456, 0, 0}
	for _, p := range []Protocol{Extended, Prepared} {
		got := decode(t, p.appendSync(p.appendStatement(nil, s, args)))
		name := "s"
		if p == Extended {
			parse, ok := got[0].(*pgproto3.Parse)
			if !ok || parse.Name != "" || parse.Query != "SELECT $1, $2" || len(parse.ParameterOIDs) > 0 {
				t.Fatalf("%s begins with %+v", p, got[0])
			}
			got, name = got[1:], ""
		}
		if len(got) != 4 {
			t.Fatalf("%s has %d messages from Bind on", p, len(got))
		}
		bind := got[0].(*pgproto3.Bind)
		if bind.PreparedStatement != name || bind.DestinationPortal != "" || len(bind.Parameters) != 2 ||
			string(bind.Parameters[0]) != "12" || string(bind.Parameters[1]) != "-3456" {
			t.Errorf("%s binds %+v", p, bind)
		}
		if d := got[1].(*pgproto3.Describe); d.ObjectType != 'P' || d.Name != "" {
			t.Errorf("%s describes %+v", p, d)
		}
		if _, ok := got[2].(*pgproto3.Execute); !ok {
			t.Errorf("%s does not execute but %T", p, got[2])
		}
		if _, ok := got[3].(*pgproto3.Sync); !ok {
			t.Errorf("%s does not end with Sync but %T", p, got[3])
		}
	}
}

// Equal seeds give equal work, so that all targets of a group do the same.
func TestScriptsRepeat(t *testing.T) {
	for _, w := range All() {
		for _, p := range Protocols() {
			a, b, other := w.Script(p, 3, 9, testRows), w.Script(p, 3, 9, testRows), w.Script(p, 4, 9, testRows)
			differs := false
			for range 50 {
				x := a.Next()
				if y := b.Next(); !bytes.Equal(x.Bytes, y.Bytes) {
					t.Fatalf("%s, %s: two scripts of one seed differ", w.Name, p)
				}
				differs = differs || !bytes.Equal(x.Bytes, other.Next().Bytes)
			}
			if !differs {
				t.Errorf("%s, %s: two clients do the same", w.Name, p)
			}
		}
	}
}

// Every transaction ends, has as many statements as it says, and is one request where
// the protocol is pipelined.
func TestTransactionsAreWhole(t *testing.T) {
	want := map[string]int{"select": 1, "batch": BatchSize, "mixed": 1, "tpcb": 7, "wide": 1, "rows": 1, "writeread": 2, "connect": 1}
	for _, w := range All() {
		for _, p := range Protocols() {
			s := w.Script(p, 0, 1, testRows)
			for range 20 {
				statements, requests := 0, 0
				for {
					r := s.Next()
					statements += r.Statements
					requests++
					if r.Ready != 1 {
						t.Fatalf("%s, %s: %d answers wanted", w.Name, p, r.Ready)
					}
					if r.Last {
						break
					}
				}
				if statements != want[w.Name] {
					t.Fatalf("%s, %s: %d statements", w.Name, p, statements)
				}
				if p == Pipelined && requests != 1 || p != Pipelined && requests != statements {
					t.Fatalf("%s, %s: %d requests for %d statements", w.Name, p, requests, statements)
				}
			}
		}
	}
}

func TestMixedWritesAFifth(t *testing.T) {
	w, err := Find("mixed")
	if err != nil {
		t.Fatal(err)
	}
	s := w.Script(Simple, 0, 1, testRows)
	writes := 0
	const n = 10_000
	for range n {
		if bytes.Contains(s.Next().Bytes, []byte("UPDATE")) {
			writes++
		}
	}
	if share := float64(writes) / n; share < 0.18 || share > 0.22 {
		t.Errorf("%.3f of the statements write", share)
	}
}

// The read that follows the write checks what was written last.
func TestWriteReadChecks(t *testing.T) {
	w, err := Find("writeread")
	if err != nil {
		t.Fatal(err)
	}
	s := w.Script(Simple, 5, 1, testRows)
	for turn := int64(1); turn < 4; turn++ {
		if r := s.Next(); r.Checks {
			t.Fatal("a write is checked")
		}
		if r := s.Next(); !r.Checks || r.Want != turn {
			t.Fatalf("turn %d checks %v for %d", turn, r.Checks, r.Want)
		}
	}
}

func TestPrepareListsEveryStatement(t *testing.T) {
	w, err := Find("mixed")
	if err != nil {
		t.Fatal(err)
	}
	names := func(p Protocol) []string {
		var out []string
		if err := w.Prepare(p, func(name, _ string) error { out = append(out, name); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := names(Simple); got != nil {
		t.Errorf("the simple protocol prepares %v", got)
	}
	if got := names(Pipelined); !slices.Equal(got, []string{"point", "update_account"}) {
		t.Errorf("the pipelined protocol prepares %v", got)
	}
}

// The generator must not be what is measured.
func TestNextDoesNotAllocate(t *testing.T) {
	w, err := Find("select")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Protocols() {
		s := w.Script(p, 0, 1, testRows)
		s.Next()
		if n := testing.AllocsPerRun(100, func() { s.Next() }); n != 0 {
			t.Errorf("%s: %v allocations for a request", p, n)
		}
	}
}

// Clients that choose between servers send to the primary what writes, and all of a
// transaction block.
func TestRequestsSayWhetherTheyWrite(t *testing.T) {
	for _, c := range []struct {
		workload string
		protocol Protocol
		steps    []string // of a transaction: w or r
	}{
		{"select", Simple, []string{"r"}},
		{"batch", Pipelined, []string{"r"}},
		{"writeread", Simple, []string{"w", "r"}},
		{"writeread", Pipelined, []string{"w"}},
		{"tpcb", Prepared, []string{"w", "w", "w", "w", "w", "w", "w"}},
	} {
		w, err := Find(c.workload)
		if err != nil {
			t.Fatal(err)
		}
		s := w.Script(c.protocol, 0, 1, testRows)
		for turn := range 2 {
			var got []string
			for last := false; !last; {
				r := s.Next()
				got, last = append(got, map[bool]string{true: "w", false: "r"}[r.Writes]), r.Last
			}
			if !slices.Equal(got, c.steps) {
				t.Errorf("%s, %s, turn %d: %v", c.workload, c.protocol, turn, got)
			}
		}
	}
}
