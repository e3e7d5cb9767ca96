package service

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
)

// settle is how long after its last change the file is read: an editor writes,
// renames and changes modes in several steps.
const settle = 100 * time.Millisecond

// mended is how often it is looked whether what a refused configuration names, such as the
// file of a password, can be used by now.
const mended = time.Second

// reloader reads the configuration again when asked or when the file changes, and
// passes it on if it is valid.
type reloader struct {
	path    string
	current atomic.Pointer[config.Config]
	// check says whether the service can take a configuration; nil: any.
	check   func(*config.Config) error
	out     chan *config.Config // holds one: the latest
	asked   chan struct{}
	results *prometheus.CounterVec
	refused prometheus.Gauge
	// why is what is wrong with the file as it is, nil if nothing is.
	why atomic.Pointer[error]
	// owed says that a reload was asked for and refused for what the file names; the
	// watching goroutine's.
	owed bool
	log  *slog.Logger
}

func newReloader(path string, current *config.Config, check func(*config.Config) error, reg *prometheus.Registry, log *slog.Logger) *reloader {
	r := &reloader{
		path:  path,
		check: check,
		out:   make(chan *config.Config, 1),
		asked: make(chan struct{}, 1),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgpilot_config_reloads_total",
			Help: "Times the configuration was read again: ok, or refused because of what is in it.",
		}, []string{"result"}),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgpilot_config_refused",
			Help: "1 while the configuration in the file is refused and an earlier one is in force: it is not valid, or changes what only a start can change. Otherwise 0.",
		}),
		log: log,
	}
	for _, result := range []string{"ok", "refused"} {
		r.results.WithLabelValues(result)
	}
	reg.MustRegister(r.results, r.refused)
	r.current.Store(current)
	return r
}

// refusal says what is wrong with the file, or nothing.
func (r *reloader) refusal() string {
	why := r.why.Load()
	if why == nil {
		return ""
	}
	if fixed := (*config.FixedError)(nil); errors.As(*why, &fixed) {
		return "an earlier configuration is in force until the next start: " + fixed.Error()
	}
	if unusable := (*unusableError)(nil); errors.As(*why, &unusable) {
		return "an earlier configuration is in force until what the new one names can be used: " + unusable.Error()
	}
	return "an earlier configuration is in force and the next start would fail: " + (*why).Error()
}

// ServeHTTP shows the configuration in force, with secrets masked.
func (r *reloader) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, r.current.Load().String()+"\n") // fails only when the client is gone
}

// request asks for a reload whether or not the file changed: a file it names may
// have.
func (r *reloader) request() {
	select {
	case r.asked <- struct{}{}:
	default: // one is already asked for
	}
}

// watch reloads until ctx ends. The folder is watched, not the file: editors and
// mounted volumes put a new file under the old name, or turn a link in its path.
func (r *reloader) watch(ctx context.Context) {
	var events <-chan fsnotify.Event
	var failures <-chan error
	if w, err := fsnotify.NewWatcher(); err != nil {
		r.log.Warn("changes of the configuration are only seen at SIGHUP", obs.KeyError, err)
	} else {
		defer w.Close()
		if err := w.Add(filepath.Dir(r.path)); err != nil {
			r.log.Warn("changes of the configuration are only seen at SIGHUP", obs.KeyError, err)
		}
		events, failures = w.Events, w.Errors
	}
	// The first look catches a change between the start and the watch.
	look := time.NewTimer(settle)
	defer look.Stop()
	again := time.NewTicker(mended)
	defer again.Stop()
	pending := true
	var seen []byte
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			// Other files of a busy folder must not put the look off for ever.
			if !pending || filepath.Base(e.Name) == filepath.Base(r.path) {
				look.Reset(settle)
				pending = true
			}
		case <-failures: // an overflowed queue: look
			look.Reset(settle)
			pending = true
		case <-look.C:
			pending = false
			data, err := os.ReadFile(r.path)
			if err != nil || bytes.Equal(data, seen) && r.why.Load() == nil {
				continue // being replaced, or it was another file
			}
			seen = data
			r.load(false)
		case <-again.C:
			// Not while the configuration is being written, of which half would be read.
			if why := r.why.Load(); why != nil && !pending && errors.As(*why, new(*unusableError)) {
				r.load(false)
			}
		case <-r.asked:
			r.load(true)
		}
	}
}

// unusableError says that something that a valid configuration names, such as the file of
// a password, cannot be used.
type unusableError struct{ err error }

func (e *unusableError) Error() string { return e.err.Error() }
func (e *unusableError) Unwrap() error { return e.err }

// load reads the file and passes it on, or says why not. Unless it was asked
// for, a configuration that means the same as the present one is no news. One that the
// service could take only in part is refused as a whole.
func (r *reloader) load(asked bool) {
	due := asked || r.owed
	next, err := config.Load(r.path)
	var changed []string
	if err == nil {
		changed, err = config.Changes(r.current.Load(), next)
	}
	if err == nil && r.check != nil && (due || len(changed) > 0) {
		if wrong := r.check(next); wrong != nil {
			err = &unusableError{wrong}
			r.owed = due
		}
	}
	if err != nil {
		if was := r.why.Load(); !asked && was != nil && (*was).Error() == err.Error() {
			return // looked at again, and told before
		}
		r.why.Store(&err)
		r.refused.Set(1)
		r.results.WithLabelValues("refused").Inc()
		r.log.Error("the new configuration is refused and the old one stays", obs.KeyPath, r.path, obs.KeyError, err)
		return
	}
	r.why.Store(nil)
	r.refused.Set(0)
	if len(changed) == 0 && !due {
		return
	}
	r.owed = false
	r.current.Store(next)
	select {
	case <-r.out:
	default:
	}
	r.out <- next // this goroutine is the only sender, so there is room
	r.results.WithLabelValues("ok").Inc()
	r.log.Info("configuration reloaded", obs.KeyPath, r.path, obs.KeyConfigKeys, changed)
}
