package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		in    []byte
		typ   byte
		total int
		bad   bool
	}{
		{nil, 0, 0, false},
		{[]byte{'Q', 0, 0, 0}, 0, 0, false},
		{[]byte{'Q', 0, 0, 0, 4}, 'Q', 5, false},
		{[]byte{'Q', 0, 0, 1, 0, 'x'}, 'Q', 257, false},
		{[]byte{'Q', 0, 0, 0, 3}, 'Q', 0, true},
		{[]byte{'Q', 0x3f, 0xff, 0xff, 0xff}, 'Q', 0x40000000, false},
		{[]byte{'Q', 0x40, 0, 0, 0}, 'Q', 0, true},
		{[]byte{'Q', 0xff, 0xff, 0xff, 0xff}, 'Q', 0, true},
	} {
		typ, total, err := Header(c.in)
		var werr *Error
		if typ != c.typ || total != c.total || errors.As(err, &werr) != c.bad {
			t.Errorf("Header(% x) = %q, %d, %v; want %q, %d, error %v", c.in, typ, total, err, c.typ, c.total, c.bad)
		}
	}
}

func TestQueryText(t *testing.T) {
	msg := AppendQuery(nil, "SELECT 1")
	if text, ok := QueryText(msg); !ok || string(text) != "SELECT 1" {
		t.Fatalf("got %q, %v", text, ok)
	}
	if _, total, err := Header(msg); err != nil || total != len(msg) {
		t.Fatalf("the built message says %d bytes, has %d (%v)", total, len(msg), err)
	}
	if _, ok := QueryText(append(msg, 'x')); ok {
		t.Fatal("bytes after the terminator must not pass")
	}
	if _, ok := QueryText(bytes.TrimRight(msg, "\x00")); ok {
		t.Fatal("a text without terminator must not pass")
	}
}

func TestNoAllocation(t *testing.T) {
	msg := AppendQuery(nil, "SELECT 1")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := Header(msg); err != nil {
			t.Fatal(err)
		}
		if _, ok := QueryText(msg); !ok {
			t.Fatal("text")
		}
	}); n != 0 {
		t.Fatalf("%v allocations per message, want none", n)
	}
}

// Messages that have no need to be long are refused by their headers, as by a server.
func TestRequest(t *testing.T) {
	for typ, small := range map[byte]bool{
		Query: false, Parse: false, Bind: false, FunctionCall: false, CopyData: false,
		Close: true, Describe: true, Execute: true, Flush: true, Sync: true, Terminate: true, CopyDone: true, CopyFail: true,
	} {
		if _, total, err := Request([]byte{typ, 0, 0, MaxSmall >> 8, MaxSmall & 0xff}); total != 1+MaxSmall || err != nil {
			t.Errorf("%q of the greatest length: %d, %v", typ, total, err)
		}
		_, total, err := Request([]byte{typ, 0, 0, (MaxSmall + 1) >> 8, (MaxSmall + 1) & 0xff})
		if refused := total == 0 && err != nil; refused != small {
			t.Errorf("%q beyond it: %d, %v", typ, total, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte{'Q', 0, 0, 0, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		typ, total, err := Header(b)
		if err == nil && total != 0 && (total < HeaderSize || typ != b[0]) {
			t.Fatalf("Header(% x) = %q, %d", b, typ, total)
		}
	})
}
