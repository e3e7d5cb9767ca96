package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

func openDir(t *testing.T) *rundir.Dir {
	t.Helper()
	d, err := rundir.Open(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// service runs a handler on an instance's HTTP socket until the test ends.
func service(t *testing.T, d *rundir.Dir, name, id string, h http.Handler) {
	t.Helper()
	c, err := d.Claim(name, id)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.ListenHTTP()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- obs.Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, c.Close()); err != nil {
			t.Error(err)
		}
	})
}

// healthy is a service with some metrics, ready unless it ails.
func healthy(requests float64, ails error) http.Handler {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."}, []string{"kind", "service"})
	c.WithLabelValues("a", "own").Add(requests)
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds", Help: "Time.", Buckets: []float64{1}})
	h.Observe(.5)
	reg.MustRegister(c, h)
	health := obs.NewHealth()
	health.Set("bus", ails)
	health.Ready()
	return obs.Handler(reg, health, true)
}

func fixed(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func get(t *testing.T, r *Relay, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func newRelay(d *rundir.Dir, pprof bool) *Relay {
	return New(d, Needed(""), pprof, slog.New(slog.DiscardHandler))
}

func TestMetricsOfAllServicesAreOnePage(t *testing.T) {
	d := openDir(t)
	service(t, d, rundir.Router, "1", healthy(3, nil))
	service(t, d, rundir.Router, "2", healthy(4, nil))
	service(t, d, rundir.Classifier, "1", fixed("# TYPE requests_total counter\nrequests_total 5\n"))
	service(t, d, rundir.Lagpoller, "1", fixed("this is {no page\n"))
	service(t, d, "guard", "1", http.NotFoundHandler())
	service(t, d, "odd", "1", fixed("# TYPE requests_total gauge\nrequests_total 6\nodd 7\n"))
	status, body := get(t, newRelay(d, false), "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	for _, line := range []string{
		`requests_total{instance="1",service="classifier"} 5`,
		`requests_total{instance="1",service="router",exported_service="own",kind="a"} 3`,
		`requests_total{instance="2",service="router",exported_service="own",kind="a"} 4`,
		`seconds_bucket{instance="2",service="router",le="1"} 1`,
		`odd{instance="1",service="odd"} 7`,
		`pgpilot_up{instance="2",service="router"} 1`,
		`pgpilot_up{instance="1",service="lagpoller"} 0`,
		`pgpilot_up{instance="1",service="guard"} 0`,
	} {
		if !sameSample(body, line) {
			t.Errorf("missing: %s", line)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	fs, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	if n := len(fs["requests_total"].Metric); n != 3 {
		t.Errorf("requests_total has %d samples, want 3 (not those of another type):\n%s", n, body)
	}
}

// sameSample finds a line whatever the order of its labels.
func sameSample(body, want string) bool {
	labels := func(line string) map[string]bool {
		m := map[string]bool{}
		name, rest, _ := strings.Cut(line, "{")
		inner, value, _ := strings.Cut(rest, "}")
		m[name], m["="+value] = true, true
		for _, l := range strings.Split(inner, ",") {
			m[l] = true
		}
		return m
	}
	w := labels(want)
	for line := range strings.Lines(body) {
		got := labels(strings.TrimSuffix(line, "\n"))
		same := len(got) == len(w)
		for k := range w {
			same = same && got[k]
		}
		if same {
			return true
		}
	}
	return false
}

func TestReadyWhenOneOfEachKindIs(t *testing.T) {
	d := openDir(t)
	r := newRelay(d, false)
	expect := func(status int, parts map[string]string) {
		t.Helper()
		got, body := get(t, r, "/readyz")
		var rep obs.Report
		if err := json.Unmarshal([]byte(body), &rep); err != nil {
			t.Fatal(err)
		}
		if got != status || rep.Ready != (status == http.StatusOK) {
			t.Errorf("status %d, want %d: %s", got, status, body)
		}
		for p, want := range parts {
			if rep.Parts[p] != want {
				t.Errorf("%s is %q, want %q", p, rep.Parts[p], want)
			}
		}
	}
	expect(503, map[string]string{"listener": "none is running", "lagpoller": "none is running"})
	service(t, d, rundir.Listener, "1", healthy(1, nil))
	service(t, d, rundir.Router, "1", healthy(1, errors.New("no connection")))
	service(t, d, rundir.Lagpoller, "1", healthy(1, nil))
	service(t, d, rundir.Classifier, "1", healthy(1, nil))
	expect(503, map[string]string{"listener.1": "ok", "router.1": "bus: no connection"})
	service(t, d, rundir.Router, "2", healthy(1, nil))
	expect(200, map[string]string{"router.1": "bus: no connection", "router.2": "ok"})
}

// What a service notes shows, and makes nothing less ready.
func TestNotesAreRelayed(t *testing.T) {
	d := openDir(t)
	health := obs.NewHealth()
	health.Note("servers", func() string { return "pg2: connection refused" })
	health.Ready()
	service(t, d, rundir.Lagpoller, "1", obs.Handler(prometheus.NewRegistry(), health, false))
	for _, s := range []string{rundir.Listener, rundir.Router, rundir.Classifier} {
		service(t, d, s, "1", healthy(1, nil))
	}
	status, body := get(t, newRelay(d, false), "/readyz")
	var got obs.Report
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK || len(got.Notes) != 1 || got.Notes["servers of lagpoller.1"] != "pg2: connection refused" {
		t.Errorf("%d %s", status, body)
	}
}

// Whose bus is elsewhere runs no lagpoller.
func TestReadyWithTheBusElsewhere(t *testing.T) {
	d := openDir(t)
	for _, s := range []string{rundir.Listener, rundir.Router, rundir.Classifier} {
		service(t, d, s, "1", healthy(1, nil))
	}
	log := slog.New(slog.DiscardHandler)
	if status, body := get(t, New(d, Needed(""), false, log), "/readyz"); status != 503 || !strings.Contains(body, "lagpoller") {
		t.Errorf("bus here: %d %s", status, body)
	}
	if status, body := get(t, New(d, Needed("nats://bus:4222"), false, log), "/readyz"); status != 200 || strings.Contains(body, "lagpoller") {
		t.Errorf("bus elsewhere: %d %s", status, body)
	}
}

func TestProfilesAreRelayedWhenAskedFor(t *testing.T) {
	d := openDir(t)
	service(t, d, rundir.Router, "1", healthy(1, nil))
	const path = "/router/1/debug/pprof/cmdline"
	if status, _ := get(t, newRelay(d, false), path); status != http.StatusNotFound {
		t.Errorf("status %d without pprof", status)
	}
	r := newRelay(d, true)
	if status, body := get(t, r, path); status != http.StatusOK || !strings.Contains(body, "relay.test") {
		t.Errorf("status %d, %q", status, body)
	}
	if status, body := get(t, r, "/router/1/debug/pprof/goroutine?debug=1"); status != http.StatusOK || !strings.Contains(body, "goroutine profile") {
		t.Errorf("status %d, %q", status, body)
	}
	for _, p := range []string{"/router/9/debug/pprof/", "/..%2f/1/debug/pprof/", "/router/x%2f..%2f1/debug/pprof/"} {
		if status, _ := get(t, r, p); status != http.StatusBadGateway && status != http.StatusNotFound && status != http.StatusMovedPermanently {
			t.Errorf("%s: status %d", p, status)
		}
	}
	if status, _ := get(t, r, "/router/1/metrics"); status != http.StatusNotFound {
		t.Errorf("a page besides profiles: status %d", status)
	}
}

// A service that was killed before it served anybody left its HTTP socket behind, and there is
// nothing to wait for.
func TestTheDeadAreNotAsked(t *testing.T) {
	d := openDir(t)
	service(t, d, rundir.Router, "1", healthy(3, nil))
	for _, name := range []string{"router.2.http.sock", "router.2.lock"} { // nobody holds it
		if err := os.WriteFile(d.Join(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newRelay(d, false)
	if _, body := get(t, r, "/metrics"); strings.Contains(body, `instance="2"`) || !sameSample(body, `pgpilot_up{instance="1",service="router"} 1`) {
		t.Errorf("metrics:\n%s", body)
	}
	if _, body := get(t, r, "/readyz"); strings.Contains(body, "router.2") {
		t.Errorf("ready:\n%s", body)
	}
}
