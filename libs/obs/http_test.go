package obs

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHandler(t *testing.T) {
	reg := NewRegistry("v1.2.3")
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pgpilot_test", Help: "x"}, func() float64 { return 42 }))
	health := NewHealth()
	health.Ready()
	tests := []struct {
		pprof        bool
		method, path string
		code         int
		body         []string
	}{
		{false, "GET", "/healthz", 200, []string{"ok\n"}},
		{false, "GET", "/readyz", 200, []string{`"ready":true`}},
		{false, "GET", "/metrics", 200, []string{"pgpilot_test 42", `pgpilot_build_info{version="v1.2.3"} 1`, "go_goroutines ", "go_gc_heap_live_bytes ", "process_open_fds "}},
		{false, "POST", "/metrics", 405, nil},
		{false, "GET", "/debug/pprof/", 404, nil},
		{false, "GET", "/", 404, nil},
		{true, "GET", "/debug/pprof/", 200, []string{"goroutine"}},
		{true, "GET", "/debug/pprof/goroutine?debug=1", 200, []string{"goroutine profile:"}},
		{true, "GET", "/debug/pprof/cmdline", 200, nil},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		Handler(reg, health, tt.pprof).ServeHTTP(w, r)
		if w.Code != tt.code {
			t.Errorf("%s %s: got %d, want %d", tt.method, tt.path, w.Code, tt.code)
		}
		for _, want := range tt.body {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %s: %q is not in\n%s", tt.method, tt.path, want, w.Body)
			}
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A request in progress when the service is told to stop is answered.
func TestServeFinishesRequestsInProgress(t *testing.T) {
	l := listen(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "answered") // the client looks at it
	})
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	body := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			body <- err.Error()
			return
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		body <- string(b)
	}()
	<-arrived
	stop()
	close(release)
	if got := <-body; got != "answered" {
		t.Errorf("the request in progress got %q", got)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the address still accepts connections")
	}
}

func TestServeReportsALostListener(t *testing.T) {
	l := listen(t)
	l.Close()
	err := Serve(context.Background(), l, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v, want an error that names the address", err)
	}
}
