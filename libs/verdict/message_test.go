package verdict

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

func TestMessageKeepsTheVerdict(t *testing.T) {
	key := sqltoken.Key{0, 1, 2, 0xfe, 15: 0xff}
	want := Verdict{Kind: Write, Effects: Session | Unproven, Fingerprint: 7, Generation: 1 << 50}
	data, err := bus.Encode(want.Message("app", key))
	if err != nil {
		t.Fatal(err)
	}
	m, err := bus.Decode[bus.Verdict](data)
	if err != nil {
		t.Fatal(err)
	}
	gotKey, got, err := FromMessage(m)
	if err != nil || gotKey != key || got != want || m.Database != "app" {
		t.Fatalf("got %x, %+v, %v", gotKey, got, err)
	}
	if m.Fingerprint != "0000000000000007" || m.Kind != "write" {
		t.Fatalf("the message reads %+v", m)
	}
}

func TestHalfUnderstoodMessagesAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*bus.Verdict){
		"version":         func(m *bus.Verdict) { m.V++ },
		"short key":       func(m *bus.Verdict) { m.Key = m.Key[2:] },
		"odd key":         func(m *bus.Verdict) { m.Key += "0" },
		"long key":        func(m *bus.Verdict) { m.Key += "00" },
		"key not hex":     func(m *bus.Verdict) { m.Key = "x" + m.Key[1:] },
		"no key":          func(m *bus.Verdict) { m.Key = "" },
		"unknown kind":    func(m *bus.Verdict) { m.Kind = "both" },
		"no kind":         func(m *bus.Verdict) { m.Kind = "" },
		"unknown effect":  func(m *bus.Verdict) { m.Effects = append(m.Effects, "melts") },
		"bad fingerprint": func(m *bus.Verdict) { m.Fingerprint = "-1" },
	} {
		m := Verdict{Kind: Read}.Message("app", sqltoken.Key{1})
		spoil(&m)
		if _, _, err := FromMessage(m); err == nil {
			t.Errorf("%s: accepted %+v", name, m)
		}
	}
}
