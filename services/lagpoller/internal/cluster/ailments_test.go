package cluster

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/bus"
)

func TestAilments(t *testing.T) {
	well := bus.Lag{Backend: "pg1", Address: "10.0.0.1:5432", Healthy: true}
	ill := bus.Lag{Backend: "pg2", Address: "10.0.0.2:5432", Error: "connection refused"}
	former := bus.Lag{Backend: "pg4", Address: "10.0.0.4:5432", Role: bus.Primary, Healthy: true}
	silent := bus.Lag{Backend: "pg3", Address: "10.0.0.3:5432"}
	for _, test := range []struct {
		name     string
		backends []bus.Lag
		primary  string
		want     string
	}{
		{"all well", []bus.Lag{well}, "pg1", ""},
		{"one of two", []bus.Lag{well, ill}, "pg1", "pg2 (10.0.0.2:5432): connection refused"},
		{"two", []bus.Lag{ill, silent}, "pg1", "pg2 (10.0.0.2:5432): connection refused; pg3 (10.0.0.3:5432) is not healthy"},
		{"the primary", []bus.Lag{well, former}, "pg4", ""},
		{"a former primary", []bus.Lag{well, former}, "pg1", "pg4 (10.0.0.4:5432) answers as a primary but is not the one that is written to: stop it, and rebuild it as a replica"},
		{"no primary", []bus.Lag{well}, "", "no server is known to be the primary"},
	} {
		if got := Ailments(bus.LagSnapshot{Backends: test.backends}, bus.Topology{Primary: test.primary}); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
