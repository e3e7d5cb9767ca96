package engine

import (
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// Decisions are counted by server and role, until the server is given up.
func TestDecisionsByServer(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	counted := func() map[string]float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "pgpilot_backend_decisions_total" {
				continue
			}
			for _, s := range f.GetMetric() {
				got[fmt.Sprintf("%s %s", s.GetLabel()[0].GetValue(), s.GetLabel()[1].GetValue())] = s.GetCounter().GetValue()
			}
		}
		return got
	}
	a, b := &serverSite{name: "a"}, &serverSite{name: "b"}
	m.decision(a, route.RolePrimary, route.ReasonWrite)
	m.decision(b, route.RoleReplica, route.ReasonRead)
	m.decision(b, route.RoleReplica, route.ReasonHint)
	m.decision(b, route.RolePrimary, route.ReasonWrite) // promoted
	if want := (map[string]float64{"a primary": 1, "b replica": 2, "b primary": 1}); !maps.Equal(counted(), want) {
		t.Errorf("counted: %v, want %v", counted(), want)
	}
	m.forget("b")
	if want := (map[string]float64{"a primary": 1}); !maps.Equal(counted(), want) {
		t.Errorf("b is given up: %v, want %v", counted(), want)
	}
}
