package grafana

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const overview = "dashboards/overview.json"

// read decodes a dashboard with Grafana's types and refuses what they do not have.
func read(t *testing.T, path string) dashboard.Dashboard {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := decode(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

// decode reads twice: the strict way only says what is wrong, and gives an empty list
// as an error when nothing is.
func decode(text []byte) (d dashboard.Dashboard, err error) {
	plugins.RegisterDefaultPlugins()
	var strict dashboard.Dashboard
	if err := strict.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		return d, err
	}
	err = json.Unmarshal(text, &d)
	return d, err
}

// panels gives the panels, without the rows' titles.
func panels(t *testing.T, d dashboard.Dashboard) []dashboard.Panel {
	t.Helper()
	var found []dashboard.Panel
	for _, p := range d.Panels {
		switch {
		case p.Panel != nil:
			found = append(found, *p.Panel)
		case p.RowPanel != nil:
			if len(p.RowPanel.Panels) != 0 {
				t.Errorf("row %q is collapsed: its panels would not be seen", *p.RowPanel.Title)
			}
		}
	}
	if len(found) < 10 {
		t.Fatalf("only %d panels were found", len(found))
	}
	return found
}

// expressions gives a panel's expressions as Prometheus gets them.
func expressions(t *testing.T, p dashboard.Panel) []string {
	t.Helper()
	var found []string
	for _, target := range p.Targets {
		query, ok := target.(*prometheus.Dataquery)
		if !ok {
			value, isValue := target.(prometheus.Dataquery)
			if !isValue {
				t.Fatalf("%s: a target is no Prometheus query but %T", *p.Title, target)
			}
			query = &value
		}
		found = append(found, strings.ReplaceAll(query.Expr, "$__rate_interval", "1m"))
	}
	return found
}

func TestEveryExpressionIsPromQL(t *testing.T) {
	language := parser.NewParser(parser.Options{})
	metrics := map[string]bool{}
	for _, p := range panels(t, read(t, overview)) {
		all := expressions(t, p)
		if len(all) == 0 {
			t.Errorf("%s: no expression", *p.Title)
		}
		for _, text := range all {
			expr, err := language.ParseExpr(text)
			if err != nil {
				t.Errorf("%s: %s: %v", *p.Title, text, err)
				continue
			}
			checkKinds(t, *p.Title, expr, nil, metrics)
		}
	}
	for name := range metrics {
		if !strings.HasPrefix(name, "pgpilot_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is no metric of pgpilot", name)
		}
	}
	t.Logf("%d metrics: %s", len(metrics), strings.Join(slices.Sorted(maps.Keys(metrics)), ", "))
}

// checkKinds walks an expression: what counts up is only looked at through rate or
// increase, and nothing else is.
func checkKinds(t *testing.T, panel string, node parser.Node, around []parser.Node, metrics map[string]bool) {
	t.Helper()
	if selector, ok := node.(*parser.VectorSelector); ok {
		metrics[selector.Name] = true
		counts := strings.HasSuffix(selector.Name, "_total") || strings.HasSuffix(selector.Name, "_bucket")
		rated := slices.ContainsFunc(around, func(n parser.Node) bool {
			call, ok := n.(*parser.Call)
			return ok && (call.Func.Name == "rate" || call.Func.Name == "increase")
		})
		if counts != rated {
			t.Errorf("%s: %s: a counter must be under rate or increase, a gauge must not", panel, selector)
		}
	}
	for child := range parser.ChildrenIter(node) {
		checkKinds(t, panel, child, append(around, node), metrics)
	}
}

func TestPanelsAreSaidAndPlaced(t *testing.T) {
	ids := map[uint32]string{}
	var taken [100][24]string
	for _, p := range panels(t, read(t, overview)) {
		title := *p.Title
		if p.Description == nil || *p.Description == "" {
			t.Errorf("%s: a panel says what it shows", title)
		}
		if other, twice := ids[*p.Id]; twice {
			t.Errorf("%s has the id of %s", title, other)
		}
		ids[*p.Id] = title
		if p.Datasource == nil || *p.Datasource.Uid != "${datasource}" {
			t.Errorf("%s: the data source is not the one that is chosen above", title)
		}
		at := p.GridPos
		for y := at.Y; y < at.Y+at.H; y++ {
			for x := at.X; x < at.X+at.W; x++ {
				if other := taken[y][x]; other != "" {
					t.Fatalf("%s lies over %s", title, other)
				}
				taken[y][x] = title
			}
		}
	}
}

// A mistake in the dashboard must not pass.
func TestUnknownFieldsAreRefused(t *testing.T) {
	text, err := os.ReadFile(overview)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{`"gridPos"`, `"gridPosition"`}, {`"expr"`, `"expression"`}, {`"refresh"`, `"refreshing"`}} {
		if _, err := decode([]byte(strings.ReplaceAll(string(text), c[0], c[1]))); err == nil {
			t.Errorf("%s instead of %s is taken", c[1], c[0])
		}
	}
}

func TestProvisioning(t *testing.T) {
	for path, into := range map[string]any{
		"provisioning/datasources/prometheus.yaml": &struct {
			APIVersion  int `json:"apiVersion"`
			Datasources []struct {
				Name, UID, Type, Access, URL string
				IsDefault                    bool
			} `json:"datasources"`
		}{},
		"provisioning/dashboards/pgpilot.yaml": &struct {
			APIVersion int `json:"apiVersion"`
			Providers  []struct {
				Name, Type string
				Options    struct{ Path string }
			} `json:"providers"`
		}{},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := json.Marshal(into); err != nil {
			t.Error(err)
		}
	}
}
