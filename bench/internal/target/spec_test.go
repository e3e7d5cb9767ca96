package target

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pgpilot/pgpilot/bench/internal/workload"
)

func TestFindKeepsTheOrderOfReports(t *testing.T) {
	specs, err := Find([]string{"strict", "direct"})
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 2 || specs[0].Name != "direct" || specs[1].Name != "strict" {
		t.Errorf("found %v", specs)
	}
	if _, err := Find([]string{"direct", "haproxy"}); err == nil || !strings.Contains(err.Error(), "pgbouncer-session") {
		t.Errorf("a target that does not exist: %v", err)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Specs() {
		if seen[s.Name] || s.Title == "" {
			t.Errorf("%+v", s)
		}
		seen[s.Name] = true
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		version string
		want    bool
	}{{"1.21", true}, {"1.21.0", true}, {"1.25.2", true}, {"2.0", true}, {"1.20.1", false}, {"1.18.0", false}, {"", false}, {"x", false}} {
		if got := atLeast(c.version, 1, 21); got != c.want {
			t.Errorf("%q: %v", c.version, got)
		}
	}
}

// What a target cannot do is left out, with a reason.
func TestSupports(t *testing.T) {
	s := &Stage{programs: programs{pgbouncer: "/pgbouncer"}}
	for _, c := range []struct {
		target string
		demand Demand
		want   string
	}{
		{"strict", Demand{workload.Prepared, 256, 10000}, ""},
		{"direct", Demand{workload.Prepared, 256, 0}, ""},
		{"direct", Demand{workload.Simple, 16, 10000}, "server connection for each of 10016"},
		{"pgbouncer", Demand{workload.Simple, 16, 10000}, ""},
		{"pgbouncer", Demand{workload.Extended, 16, 0}, ""},
		{"pgbouncer", Demand{workload.Prepared, 16, 0}, "no prepared statements"},
		{"pgbouncer", Demand{workload.Pipelined, 16, 0}, "no prepared statements"},
		{"pgbouncer-session", Demand{workload.Prepared, 16, 0}, ""},
		{"pgbouncer-session", Demand{workload.Simple, 16, 1000}, "server connection for each"},
		{"pgpool", Demand{workload.Simple, 16, 0}, "not installed"},
	} {
		specs, err := Find([]string{c.target})
		if err != nil {
			t.Fatal(err)
		}
		ok, why := s.Supports(specs[0], c.demand)
		if ok != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s, %+v: %v, %q", c.target, c.demand, ok, why)
		}
	}
	s.programs.bouncerPrepares = true
	specs, err := Find([]string{"pgbouncer"})
	if err != nil {
		t.Fatal(err)
	}
	if ok, why := s.Supports(specs[0], Demand{workload.Prepared, 16, 0}); !ok {
		t.Errorf("a PgBouncer that knows prepared statements: %s", why)
	}
}

// Reads are what is known to read, wherever it went; both routers count.
func TestCounters(t *testing.T) {
	const page = `# TYPE pgpilot_routing_decisions_total counter
pgpilot_routing_decisions_total{instance="1",reason="read",target="replica"} 70
pgpilot_routing_decisions_total{instance="2",reason="read",target="replica"} 20
pgpilot_routing_decisions_total{instance="1",reason="fence_fallback",target="primary"} 8
pgpilot_routing_decisions_total{instance="1",reason="no_replica",target="primary"} 2
pgpilot_routing_decisions_total{instance="1",reason="write",target="primary"} 1000
`
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	if c := countersOf(families); c.Reads != 100 || c.Fallbacks != 8 {
		t.Errorf("%+v", c)
	}
}
