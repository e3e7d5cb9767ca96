package obs

import (
	"encoding/json"
	"net/http"
	"sync"
)

// Health is whether a service is ready for work: started, and every part it
// reported is well. The zero value is not for use; see NewHealth. It is safe for
// concurrent use.
type Health struct {
	started chan struct{}
	once    sync.Once
	state   struct {
		sync.Mutex
		parts map[string]error
		notes map[string]func() string
	}
}

// NewHealth gives the health of a service that has not started yet.
func NewHealth() *Health {
	h := &Health{started: make(chan struct{})}
	h.state.parts = map[string]error{}
	h.state.notes = map[string]func() string{}
	return h
}

// Set says how a part is: nil when it is well, or why it is not. A part that was
// never set does not count.
func (h *Health) Set(part string, err error) {
	h.state.Lock()
	defer h.state.Unlock()
	h.state.parts[part] = err
}

// Note adds what an operator should know of a part and what does not make the service
// less ready: a server that cannot be reached, for one. current is called for each report,
// from any goroutine; it gives an empty text when there is nothing to say.
func (h *Health) Note(part string, current func() string) {
	h.state.Lock()
	defer h.state.Unlock()
	h.state.notes[part] = current
}

// Ready says that the service has started everything. Calling it again changes
// nothing.
func (h *Health) Ready() { h.once.Do(func() { close(h.started) }) }

// Started is closed once Ready has been called.
func (h *Health) Started() <-chan struct{} { return h.started }

// Report is the body of /readyz.
type Report struct {
	// Ready is true when the service has started and every part is well.
	Ready bool `json:"ready"`
	// Started is true once the service has started everything.
	Started bool `json:"started"`
	// Parts maps each part to "ok" or to what ails it.
	Parts map[string]string `json:"parts"`
	// Notes say what is wrong without making the service less ready.
	Notes map[string]string `json:"notes,omitempty"`
}

// Report gives the present state.
func (h *Health) Report() Report {
	r := Report{Parts: map[string]string{}}
	select {
	case <-h.started:
		r.Started = true
	default:
	}
	r.Ready = r.Started
	h.state.Lock()
	defer h.state.Unlock()
	for part, err := range h.state.parts {
		r.Parts[part] = "ok"
		if err != nil {
			r.Parts[part] = err.Error()
			r.Ready = false
		}
	}
	for part, current := range h.state.notes {
		if text := current(); text != "" {
			if r.Notes == nil {
				r.Notes = map[string]string{}
			}
			r.Notes[part] = text
		}
	}
	return r
}

// ServeHTTP answers /readyz: 200 when ready and 503 when not, with the Report
// either way.
func (h *Health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r := h.Report()
	w.Header().Set("Content-Type", "application/json")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(r) // fails only when the client is gone
}
