package relay

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// askTimeout bounds the wait for one service's page.
const askTimeout = 2 * time.Second

// Needed gives the services without one of which clients cannot be served as they
// should. A lagpoller whose bus is elsewhere (bus.url) is not among them.
func Needed(busURL string) []string {
	all := []string{rundir.Listener, rundir.Router, rundir.Classifier}
	if busURL == "" {
		all = append(all, rundir.Lagpoller)
	}
	return all
}

// Relay serves the pages. It is safe for concurrent use.
type Relay struct {
	dir    *rundir.Dir
	client *http.Client
	log    *slog.Logger
	needed []string
	pprof  bool
}

// New gives a relay for the services of a run directory, of which one of each needed
// kind must run; withPprof says whether their profiles are shown.
func New(dir *rundir.Dir, needed []string, withPprof bool, log *slog.Logger) *Relay {
	return &Relay{dir: dir, client: &http.Client{Transport: transport(dir)}, log: log, needed: needed, pprof: withPprof}
}

// Handler serves /metrics, /healthz, /readyz, /<service>/<id>/config and, if
// asked for, /<service>/<id>/debug/pprof/.
func (r *Relay) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // fails only when the client is gone
	})
	mux.HandleFunc("GET /readyz", r.ready)
	mux.HandleFunc("GET /metrics", r.metrics)
	mux.Handle("GET /{service}/{id}/config", r.passOn("/config", "the configuration was not relayed"))
	if r.pprof {
		mux.Handle("/{service}/{id}/debug/pprof/", r.passOn("/debug/pprof/", "profile was not relayed"))
	}
	return mux
}

// answer is one service's page.
type answer struct {
	instance
	status int
	body   []byte
	err    error
}

// askAll gets a page of every service at once.
func (r *Relay) askAll(ctx context.Context, path string) ([]answer, error) {
	is, err := instances(r.dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]answer, len(is))
	var wg sync.WaitGroup
	for i, in := range is {
		wg.Go(func() {
			a := answer{instance: in}
			a.status, a.body, a.err = r.get(ctx, in, path)
			answers[i] = a
		})
	}
	wg.Wait()
	return answers, nil
}

// ready answers 200 when there is at least one ready service of every needed kind.
// The body lists every service and every kind that is missing, and what the services
// note.
func (r *Relay) ready(w http.ResponseWriter, req *http.Request) {
	answers, err := r.askAll(req.Context(), "/readyz")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	report := obs.Report{Ready: true, Started: true, Parts: map[string]string{}}
	well, seen := map[string]bool{}, map[string]bool{}
	for _, a := range answers {
		seen[a.service] = true
		why := ailment(a)
		if why == "" {
			well[a.service] = true
			why = "ok"
		}
		report.Parts[a.String()] = why
		for part, text := range notes(a) {
			if report.Notes == nil {
				report.Notes = map[string]string{}
			}
			report.Notes[part+" of "+a.String()] = text
		}
	}
	for _, s := range r.needed {
		report.Ready = report.Ready && well[s]
		if !seen[s] {
			report.Parts[s] = errNotRunning.Error()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if !report.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(report) // fails only when the client is gone
}

// ailment says why a service is not ready, or nothing.
func ailment(a answer) string {
	switch {
	case a.err != nil:
		return "it does not answer"
	case a.status == http.StatusOK:
		return ""
	}
	var own obs.Report
	if json.Unmarshal(a.body, &own) != nil {
		return http.StatusText(a.status)
	}
	var parts []string
	for name, why := range own.Parts {
		if why != "ok" {
			parts = append(parts, name+": "+why)
		}
	}
	if len(parts) == 0 {
		return "it is starting"
	}
	return strings.Join(parts, "; ")
}

// notes gives what a service notes of its parts.
func notes(a answer) map[string]string {
	var own obs.Report
	if a.err != nil || json.Unmarshal(a.body, &own) != nil {
		return nil // ailment says so
	}
	return own.Notes
}

// passOn passes /<service>/<id><page>… on to the service.
func (r *Relay) passOn(page, complaint string) http.Handler {
	return &httputil.ReverseProxy{
		Transport: r.client.Transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme = "http"
			p.Out.URL.Host = p.In.PathValue("service") + "." + p.In.PathValue("id")
			_, rest, _ := strings.Cut(p.In.URL.Path, page)
			p.Out.URL.Path, p.Out.URL.RawPath = page+rest, ""
			p.Out.Host = p.Out.URL.Host
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			r.log.Warn(complaint, obs.KeyPath, req.URL.Path, obs.KeyError, err)
			http.Error(w, "this service does not answer", http.StatusBadGateway)
		},
	}
}
