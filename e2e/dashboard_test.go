package e2e

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var (
	// expression matches the queries of a Grafana dashboard, metricName what they ask for.
	expression = regexp.MustCompile(`"expr": "((?:[^"\\]|\\.)*)"`)
	metricName = regexp.MustCompile(`\b(?:pgpilot|process)_[a-z_]+\b`)
	// grouping matches the labels that a query sorts by, or shows.
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
)

// Every metric of the dashboard is exported by the services, with the labels that it
// is grouped by: a panel that stays empty would look like good news.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/grafana/dashboards/overview.json")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string][]string{} // labels by metric
	for _, e := range expression.FindAllStringSubmatch(string(text), -1) {
		var labels []string
		for _, g := range grouping.FindAllStringSubmatch(e[1], -1) {
			for label := range strings.SplitSeq(g[1], ",") {
				labels = append(labels, strings.TrimSpace(label))
			}
		}
		for _, name := range metricName.FindAllString(grouping.ReplaceAllString(e[1], ""), -1) {
			wanted[name] = append(wanted[name], labels...)
		}
	}
	if len(wanted) < 20 {
		t.Fatalf("the dashboard's expressions were not found: %v", wanted)
	}

	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	r.caughtUp()
	c := r.connect()
	c.must("CREATE TABLE seen (x int)")
	c.must("SELECT * FROM seen")
	// Some are there only once something has gone wrong.
	if _, err := dial(t, r.dsn()+" password=wrong"); err == nil {
		t.Fatal("a wrong password was taken")
	}
	if err := cluster.Replica(1).Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}

	for name, labels := range wanted {
		var missing string
		r.until("the services export "+name, func() bool {
			missing = r.lacks(name, labels)
			return missing == "" || missing == "labels"
		})
		if missing != "" {
			t.Errorf("no series of %s has the labels %v", name, labels)
		}
	}
}

// lacks says what of a metric is not exported: "metric", "labels" or nothing.
func (r *rig) lacks(name string, labels []string) string {
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
	family := families[name]
	if base, is := strings.CutSuffix(name, "_bucket"); is {
		if family = families[base]; family.GetType() != dto.MetricType_HISTOGRAM {
			return "metric"
		}
	}
	if len(family.GetMetric()) == 0 {
		return "metric"
	}
	for _, m := range family.GetMetric() {
		has := []string{"le"} // of every bucket
		for _, l := range m.GetLabel() {
			has = append(has, l.GetName())
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
			return ""
		}
	}
	return "labels"
}
