package session

import (
	"slices"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

func TestReported(t *testing.T) {
	made := []handoff.Parameter{{Name: "TimeZone", Value: "UTC"}, {Name: "application_name", Value: "a"}}
	for _, c := range []struct {
		name  string
		notes []string
		zone  string
	}{
		{"nothing", nil, "UTC"},
		{"another value", []string{"TimeZone\x00Asia/Tokyo\x00"}, "Asia/Tokyo"},
		{"there and back", []string{"TimeZone\x00Asia/Tokyo\x00", "TimeZone\x00UTC\x00"}, "UTC"},
		{"what shapes nothing", []string{"application_name\x00b\x00"}, "UTC"},
		{"one that was not reported before", []string{"DateStyle\x00ISO\x00"}, "UTC"},
		{"illegible", []string{"TimeZone\x00Asia", "TimeZone", ""}, "UTC"},
	} {
		var r Reported
		for _, n := range c.notes {
			r.Note([]byte(n))
		}
		now, differs := r.Over(made, false)
		want := []handoff.Parameter{{Name: "TimeZone", Value: c.zone}, {Name: "application_name", Value: "a"}}
		if !slices.Equal(now, want) || differs != (c.zone != "UTC") || made[0].Value != "UTC" {
			t.Errorf("%s: %v, differs %v, made of %v", c.name, now, differs, made)
		}
	}
}

// Of a connection with a session's settings, how its server reads strings is the server's own
// all the same, and so is that of one that was made that way.
func TestReportedStrings(t *testing.T) {
	made := func(value string) []handoff.Parameter {
		return []handoff.Parameter{{Name: "TimeZone", Value: "UTC"}, {Name: "standard_conforming_strings", Value: value}}
	}
	for _, c := range []struct {
		before, note, after string
	}{
		{"on", "", "on"},
		{"off", "", "off"},
		{"on", "standard_conforming_strings\x00off\x00", "off"},
		{"off", "standard_conforming_strings\x00on\x00", "on"},
	} {
		var r Reported
		r.Began(made(c.before))
		r.Note([]byte("TimeZone\x00Asia/Tokyo\x00"))
		r.Note([]byte(c.note))
		now, differs := r.Over(made(c.before), true)
		if !slices.Equal(now, made(c.after)) || differs != (c.before != c.after) || r.escapes != (c.after == "off") {
			t.Errorf("%s, then %q: %v, differs %v, escapes %v", c.before, c.note, now, differs, r.escapes)
		}
	}
}
