package e2e

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metric sums the series of a counter or gauge that have all these labels, given as
// name, value pairs.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	status, body := r.get("/metrics")
	if status != 200 {
		r.t.Fatalf("the metrics page answers %d: %s", status, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		r.t.Fatalf("read the metrics page: %v", err)
	}
	var sum float64
	for _, m := range families[name].GetMetric() {
		if !hasLabels(m, labels) {
			continue
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum
}

func hasLabels(m *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}
