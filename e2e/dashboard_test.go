package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
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
		r.until(fmt.Sprintf("the services export %s with the labels %v", name, labels), func() bool { return r.exports(name, labels) })
	}
}

// exports reports whether there is a series of the metric with all these labels.
func (r *rig) exports(name string, labels []string) bool {
	r.t.Helper()
	families := r.metrics()
	family := families[name]
	if base, is := strings.CutSuffix(name, "_bucket"); is {
		if family = families[base]; family.GetType() != dto.MetricType_HISTOGRAM {
			return false
		}
	}
	for _, m := range family.GetMetric() {
		has := []string{"le"} // of every bucket
		for _, l := range m.GetLabel() {
			has = append(has, l.GetName())
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
			return true
		}
	}
	return false
}
