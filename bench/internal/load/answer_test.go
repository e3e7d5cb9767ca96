package load

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

func encode(t *testing.T, messages ...pgproto3.BackendMessage) []byte {
	t.Helper()
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func row(value string) *pgproto3.DataRow { return &pgproto3.DataRow{Values: [][]byte{[]byte(value)}} }

var ready = &pgproto3.ReadyForQuery{TxStatus: 'I'}

// The answer may come in any pieces.
func TestAnswerInPieces(t *testing.T) {
	b := encode(t, row("41"), row("43"), &pgproto3.CommandComplete{CommandTag: []byte("SELECT 2")}, ready)
	for cut := 1; cut < len(b); cut++ {
		a := answer{ready: 1, checks: true, want: 42}
		used := a.read(b[:cut])
		if a.ready == 0 {
			t.Fatalf("cut at %d: ended early", cut)
		}
		used += a.read(b[used:])
		if used != len(b) || a.ready != 0 || !a.stale || a.err != nil || a.lost != nil {
			t.Fatalf("cut at %d: used %d of %d, %+v", cut, used, len(b), a)
		}
	}
}

func TestStale(t *testing.T) {
	for value, want := range map[string]bool{"41": true, "42": false, "43": false} {
		a := answer{ready: 1, checks: true, want: 42}
		a.read(encode(t, row(value), ready))
		if a.stale != want || a.err != nil {
			t.Errorf("%s: stale %v, %v", value, a.stale, a.err)
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"an error", encode(t, &pgproto3.ErrorResponse{Severity: "ERROR", Code: "40001", Message: "again"}, ready), "again (40001)"},
		{"NULL", encode(t, &pgproto3.DataRow{Values: [][]byte{nil}}, ready), "NULL"},
		{"no column", encode(t, &pgproto3.DataRow{}, ready), "without a value"},
		{"text", encode(t, row("x"), ready), "read the value"},
	} {
		a := answer{ready: 1, checks: true, want: 1}
		a.read(c.b)
		if a.err == nil || !strings.Contains(a.err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, a.err)
		}
		if a.ready != 0 {
			t.Errorf("%s: the answer has not ended", c.name)
		}
	}
	a := answer{ready: 1}
	a.read([]byte{'D', 0, 0, 0, 1, 0})
	if a.lost == nil {
		t.Error("a message of an impossible length was read")
	}
}
