package lsn

import (
	"encoding/json"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]LSN{
		"0/0": 0, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": 0xFFFFFFFFFFFFFFFF, "0/5000028": 0x5000028, "a/b": 0xA0000000B,
	} {
		got, err := Parse(in)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "/", "1/", "/1", "123", "1/2/3", "100000000/0", "0/100000000", "+1/2", "1/-2", "x/1", "1_0/0", " 1/2"} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", bad, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("16/B374D848")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s)
		if err != nil {
			return
		}
		if back, err := Parse(l.String()); err != nil || back != l {
			t.Fatalf("%q parsed as %v, which reads back as %v, %v", s, l, back, err)
		}
	})
}

// The insert position at a page boundary counts the next page's header, which no
// replica reaches while the primary is idle.
func TestRoundToPage(t *testing.T) {
	g := DefaultGeometry
	for in, want := range map[LSN]LSN{
		0x5000028: 0x5000000, // segment start: long header of 40 bytes
		0x5000029: 0x5000029, // one byte of a record
		0x5002018: 0x5002000, // page start: short header of 24 bytes
		0x5002019: 0x5002019,
		0x5002028: 0x5002028,
		0x5002000: 0x5002000,
		0x5000018: 0x5000000,
	} {
		if got := g.RoundToPage(in); got != want {
			t.Errorf("RoundToPage(%v) = %v, want %v", in, got, want)
		}
	}
	if got := (Geometry{}).RoundToPage(0x5000028); got != 0x5000028 {
		t.Errorf("unknown geometry must leave a position alone, got %v", got)
	}
}

func TestCovers(t *testing.T) {
	at := func(tl Timeline, l LSN) Position { return Position{tl, l} }
	for _, c := range []struct {
		have, want Position
		ok         bool
	}{
		{at(1, 10), at(1, 10), true},
		{at(1, 11), at(1, 10), true},
		{at(1, 9), at(1, 10), false},
		{at(2, 99), at(1, 10), false},
		{at(1, 99), at(2, 10), false},
		{at(0, 99), at(0, 10), false},
		{at(1, 0), Position{}, true},
		{Position{}, Position{}, true},
	} {
		if got := c.have.Covers(c.want); got != c.ok {
			t.Errorf("%v covers %v = %v, want %v", c.have, c.want, got, c.ok)
		}
	}
}

func TestSameRun(t *testing.T) {
	first := Incarnation{SystemID: 7, Timeline: 1, Postmaster: 100, Children: 101}
	crashed, restarted, promoted := first, first, first
	crashed.Children = 200
	restarted.Postmaster, restarted.Children = 300, 301
	promoted.Timeline = 2
	if first.SameRun(crashed) || first.SameRun(restarted) || (Incarnation{}).SameRun(Incarnation{}) {
		t.Error("a crash, a restart and nothing known are not the same run")
	}
	if !first.SameRun(promoted) {
		t.Error("a promotion continues the run")
	}
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(Position{3, 0x16B374D848})
	if err != nil || string(b) != `{"timeline":3,"lsn":"16/B374D848"}` {
		t.Fatalf("%s, %v", b, err)
	}
	var p Position
	if err := json.Unmarshal(b, &p); err != nil || p != (Position{3, 0x16B374D848}) {
		t.Fatalf("%+v, %v", p, err)
	}
}
