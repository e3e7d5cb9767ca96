package catalog

import (
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

func TestLead(t *testing.T) {
	const stale = 3 * time.Second
	type news struct {
		after    time.Duration // since the one before
		primary  string
		timeline lsn.Timeline
		system   uint64
		want     string
	}
	for name, all := range map[string][]news{
		"the first is believed":      {{0, "a", 1, 7, "a"}},
		"one without a timeline too": {{0, "a", 0, 0, "a"}, {0, "a", 3, 7, "a"}},
		"none is named":              {{0, "", 0, 0, ""}, {0, "a", 1, 7, "a"}, {time.Hour, "", 0, 0, "a"}},
		"a promotion, at once":       {{0, "a", 1, 7, "a"}, {0, "b", 2, 7, "b"}},
		"who has not seen the promotion": {
			{0, "a", 1, 7, "a"}, {0, "b", 2, 7, "b"}, {0, "a", 1, 7, "b"}, {0, "b", 2, 7, "b"},
			{stale, "a", 1, 7, "b"}, {0, "b", 2, 7, "b"},
		},
		"a cluster that has gone back": {
			{0, "b", 5, 7, "b"}, {stale, "a", 2, 7, "b"}, {1, "a", 2, 7, "a"}, {0, "b", 5, 7, "b"},
		},
		"there and back":                 {{0, "a", 1, 7, "a"}, {0, "b", 2, 7, "b"}, {0, "a", 3, 7, "a"}, {0, "b", 2, 7, "a"}},
		"the same, seen before it moved": {{0, "a", 3, 7, "a"}, {0, "a", 2, 7, "a"}, {0, "b", 2, 7, "a"}},
		"two on one timeline": {
			{0, "a", 1, 7, "a"}, {time.Second, "b", 1, 7, "a"}, {time.Second, "a", 1, 7, "a"},
			{stale, "b", 1, 7, "a"}, {time.Second, "b", 1, 7, "b"}, {0, "a", 1, 7, "b"},
		},
		"another cluster, when nobody names the first": {
			{0, "a", 5, 7, "a"}, {0, "b", 1, 8, "a"}, {stale + 1, "b", 1, 8, "b"}, {0, "b", 2, 8, "b"},
		},
		"another cluster in the same place": {{0, "a", 5, 7, "a"}, {0, "a", 1, 8, "a"}, {0, "b", 2, 8, "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := NewLead(stale), time.Unix(1, 0)
			for i, n := range all {
				now = now.Add(n.after)
				m := &bus.Topology{Primary: n.primary, Members: []bus.Member{
					{Backend: "elsewhere", Incarnation: lsn.Incarnation{Timeline: 9, SystemID: 9}},
					{Backend: n.primary, Incarnation: lsn.Incarnation{Timeline: n.timeline, SystemID: n.system}},
				}}
				if got := l.Heard(m, now); got != n.want {
					t.Errorf("after %d: %q is believed, want %q", i, got, n.want)
				}
			}
		})
	}
}

func TestLeadSettles(t *testing.T) {
	l, now := NewLead(time.Hour), time.Unix(1, 0)
	l.Heard(&bus.Topology{Primary: "a"}, now)
	l.Settle(time.Second)
	if got := l.Heard(&bus.Topology{Primary: "b"}, now.Add(2*time.Second)); got != "b" {
		t.Errorf("%q is believed, want b", got)
	}
}
