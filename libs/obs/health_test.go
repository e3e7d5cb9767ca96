package obs

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
)

// What an operator should know does not make a service less ready.
func TestNotes(t *testing.T) {
	h := NewHealth()
	h.Ready()
	text := ""
	h.Note("servers", func() string { return text })
	if r := h.Report(); !r.Ready || r.Notes != nil {
		t.Errorf("nothing to say: %+v", r)
	}
	text = "replica1: connection refused"
	if r := h.Report(); !r.Ready || !reflect.DeepEqual(r.Notes, map[string]string{"servers": text}) {
		t.Errorf("something to say: %+v", r)
	}
}

func TestReadiness(t *testing.T) {
	h := NewHealth()
	steps := []struct {
		name string
		do   func()
		code int
		want Report
	}{
		{"not started", func() {}, 503, Report{Parts: map[string]string{}}},
		{"a part is well before the start", func() { h.Set("bus", nil) }, 503, Report{Parts: map[string]string{"bus": "ok"}}},
		{"started", h.Ready, 200, Report{Ready: true, Started: true, Parts: map[string]string{"bus": "ok"}}},
		{"started again", h.Ready, 200, Report{Ready: true, Started: true, Parts: map[string]string{"bus": "ok"}}},
		{"a part fails", func() { h.Set("bus", errors.New("gone")) }, 503, Report{Started: true, Parts: map[string]string{"bus": "gone"}}},
		{"another is well", func() { h.Set("primary", nil) }, 503, Report{Started: true, Parts: map[string]string{"bus": "gone", "primary": "ok"}}},
		{"the part is back", func() { h.Set("bus", nil) }, 200, Report{Ready: true, Started: true, Parts: map[string]string{"bus": "ok", "primary": "ok"}}},
	}
	for _, s := range steps {
		s.do()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		var got Report
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v in %s", s.name, err, w.Body)
		}
		if w.Code != s.code || !reflect.DeepEqual(got, s.want) {
			t.Errorf("%s: got %d %+v, want %d %+v", s.name, w.Code, got, s.code, s.want)
		}
	}
	select {
	case <-h.Started():
	default:
		t.Error("Started is not closed after Ready")
	}
}
