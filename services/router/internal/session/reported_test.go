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
		now, differs := r.Over(made)
		want := []handoff.Parameter{{Name: "TimeZone", Value: c.zone}, {Name: "application_name", Value: "a"}}
		if !slices.Equal(now, want) || differs != (c.zone != "UTC") || made[0].Value != "UTC" {
			t.Errorf("%s: %v, differs %v, made of %v", c.name, now, differs, made)
		}
	}
}
