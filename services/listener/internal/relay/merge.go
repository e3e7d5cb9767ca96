package relay

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// Labels added to every sample.
const (
	labelService  = "service"
	labelInstance = "instance"
)

// page is a merged page in the making.
type page struct {
	families map[string]*dto.MetricFamily
	up       *dto.MetricFamily
}

func newPage() *page {
	return &page{families: map[string]*dto.MetricFamily{}, up: &dto.MetricFamily{
		Name: ptr("pgpilot_up"),
		Help: ptr("1 if the service gave its metrics, 0 if it is there and did not."),
		Type: dto.MetricType_GAUGE.Enum(),
	}}
}

func ptr[T any](v T) *T { return &v }

// labels of a service, in front of a sample's own. A sample's own label of the same
// name becomes exported_<name>, as Prometheus does it.
func labels(in instance, own []*dto.LabelPair) []*dto.LabelPair {
	out := []*dto.LabelPair{
		{Name: ptr(labelInstance), Value: ptr(in.id)},
		{Name: ptr(labelService), Value: ptr(in.service)},
	}
	for _, l := range own {
		if l.GetName() == labelService || l.GetName() == labelInstance {
			l = &dto.LabelPair{Name: ptr("exported_" + l.GetName()), Value: l.Value}
		}
		out = append(out, l)
	}
	return out
}

// add merges one service's page. Nothing of a page that cannot be read is added. A
// family that another service declares with another type is left out, and named in
// the error.
func (p *page) add(in instance, text []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read metrics of %s: %w", in, err)
	}
	var clash error
	for name, f := range families {
		for _, m := range f.Metric {
			m.Label = labels(in, m.Label)
		}
		have, ok := p.families[name]
		switch {
		case !ok:
			p.families[name] = f
		case have.GetType() != f.GetType():
			clash = fmt.Errorf("merge metrics of %s: %s is a %s, and a %s elsewhere", in, name, f.GetType(), have.GetType())
		default:
			have.Metric = append(have.Metric, f.Metric...)
		}
	}
	return clash
}

// mark records whether a service gave its metrics.
func (p *page) mark(in instance, up bool) {
	v := 0.0
	if up {
		v = 1
	}
	p.up.Metric = append(p.up.Metric, &dto.Metric{Label: labels(in, nil), Gauge: &dto.Gauge{Value: &v}})
}

// encode gives the page's text, families in the order of their names.
func (p *page) encode() ([]byte, error) {
	p.families[p.up.GetName()] = p.up
	var b bytes.Buffer
	enc := expfmt.NewEncoder(&b, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, name := range slices.Sorted(maps.Keys(p.families)) {
		if len(p.families[name].Metric) == 0 {
			continue
		}
		if err := enc.Encode(p.families[name]); err != nil {
			return nil, fmt.Errorf("write metrics: %w", err)
		}
	}
	return b.Bytes(), nil
}

// metrics serves the merged page.
func (r *Relay) metrics(w http.ResponseWriter, req *http.Request) {
	answers, err := r.askAll(req.Context(), "/metrics")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p := newPage()
	for _, a := range answers {
		err := a.err
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("read metrics of %s: status %d", a.instance, a.status)
		}
		if err == nil {
			err = p.add(a.instance, a.body)
		}
		if err != nil {
			r.log.Warn("metrics of a service are missing", obs.KeyPeer, a.String(), obs.KeyError, err)
		}
		p.mark(a.instance, err == nil)
	}
	text, err := p.encode()
	if err != nil {
		r.log.Error("metrics were not relayed", obs.KeyError, err)
		http.Error(w, "the metrics could not be merged; see the listener's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	_, _ = w.Write(text) // fails only when the client is gone
}
