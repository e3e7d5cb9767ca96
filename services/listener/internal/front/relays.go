package front

import (
	"slices"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/tlsrelay"
)

// leaveTimeout is how long sessions over TLS may take to end once the listener is
// told to. Their TLS state cannot go anywhere.
const leaveTimeout = 10 * time.Second

// relays are the sessions over TLS, by id, each carried by the goroutine of its
// client.
type relays struct {
	mu    sync.Mutex
	state struct {
		open map[string]*tlsrelay.Relay
		cut  bool // the time is up: what begins now ends at once
	}
}

func newRelays() *relays {
	r := &relays{}
	r.state.open = map[string]*tlsrelay.Relay{}
	return r
}

// run carries a session to its end.
func (r *relays) run(session string, relay *tlsrelay.Relay) error {
	r.mu.Lock()
	r.state.open[session] = relay
	if r.state.cut {
		relay.Cut()
	}
	r.mu.Unlock()
	err := relay.Run()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.state.open, session)
	return err
}

// sessions lists those that are open.
func (r *relays) sessions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, 0, len(r.state.open))
	for id := range r.state.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (r *relays) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.state.open)
}

// cut ends those that are left.
func (r *relays) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.cut = true
	for _, relay := range r.state.open {
		relay.Cut()
	}
}
