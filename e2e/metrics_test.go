package e2e

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// metric sums the series of a counter or gauge that have all these labels, given as
// name, value pairs.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	var sum float64
	for _, m := range r.metrics()[name].GetMetric() {
		if !hasLabels(m, labels) {
			continue
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum
}

// metrics gives what all services export. A service that takes its time is left out of the
// page, so one without a router or listener that is there is asked for again. It is taken as
// it is after some tries: the service may have been killed.
func (r *rig) metrics() map[string]*dto.MetricFamily {
	r.t.Helper()
	const tries = 4
	for try := 1; ; try++ {
		status, body := r.get("/metrics")
		if status != 200 {
			r.t.Fatalf("the metrics page answers %d: %s", status, body)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(body))
		if err != nil {
			r.t.Fatalf("read the metrics page: %v", err)
		}
		if try == tries || !slices.ContainsFunc(families["pgpilot_up"].GetMetric(), leftOut) {
			return families
		}
	}
}

// leftOut reports whether a sample of pgpilot_up is of a router or listener that the page lacks.
func leftOut(up *dto.Metric) bool {
	return up.GetGauge().GetValue() == 0 &&
		(hasLabels(up, []string{"service", rundir.Router}) || hasLabels(up, []string{"service", rundir.Listener}))
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
