package poll

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/news"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/want"
)

// Set is the pollers of all configured backends. Apply, Asked and Close are for
// one goroutine.
type Set struct {
	desk     *news.Desk
	board    *want.Board
	metrics  *Metrics
	log      *slog.Logger
	settings atomic.Pointer[Settings]
	pollers  map[string]*running
}

type running struct {
	backend config.Backend
	poller  *poller
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// NewSet reports to desk and polls in bursts for the wants on board.
func NewSet(desk *news.Desk, board *want.Board, metrics *Metrics, log *slog.Logger) *Set {
	return &Set{desk: desk, board: board, metrics: metrics, log: log, pollers: make(map[string]*running)}
}

// Apply makes a configuration effective: pollers of new backends start, those of
// backends that are gone or have moved end, all others go on with their
// connections and take the new settings at once. Pollers end with ctx, too.
func (s *Set) Apply(ctx context.Context, c *config.Config) {
	settings := SettingsOf(c)
	s.settings.Store(&settings)
	backends := c.Backends()
	wanted := make(map[string]config.Backend, len(backends))
	for _, b := range backends {
		wanted[b.Name] = b
	}
	for name, r := range s.pollers {
		if b, ok := wanted[name]; !ok || b.Address != r.backend.Address {
			r.stop()
			delete(s.pollers, name)
			if !ok {
				s.metrics.forget(name)
			}
			continue
		}
		r.poller.reload()
	}
	s.desk.Configure(backends)
	for _, b := range backends {
		if s.pollers[b.Name] == nil {
			s.pollers[b.Name] = s.start(ctx, b)
		}
	}
}

func (s *Set) start(ctx context.Context, b config.Backend) *running {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{backend: b, cancel: cancel, poller: &poller{
		backend: b, settings: &s.settings, desk: s.desk, board: s.board, metrics: s.metrics,
		log: s.log.With(obs.KeyBackend, b.Name, obs.KeyAddress, b.Address), reloaded: make(chan struct{}, 1), asked: make(chan struct{}),
	}}
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		r.poller.run(ctx)
	}()
	return r
}

func (r *running) stop() {
	r.cancel()
	r.wg.Wait()
}

// Asked gives a channel for each present poller that is closed once its backend
// has been asked for the first time, with whatever success, or the poller has ended.
func (s *Set) Asked() []<-chan struct{} {
	out := make([]<-chan struct{}, 0, len(s.pollers))
	for _, r := range s.pollers {
		out = append(out, r.poller.asked)
	}
	return out
}

// Close ends every poller and waits for it.
func (s *Set) Close() {
	for _, r := range s.pollers {
		r.cancel()
	}
	for _, r := range s.pollers {
		r.wg.Wait()
	}
}
