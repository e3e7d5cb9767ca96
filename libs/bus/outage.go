package bus

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// outage tells the log why there is no bus: once for each reason, however often it
// is tried. The client reports failures to dial by a handler and failures to log
// in only by LastError, which is looked at before each new attempt.
type outage struct {
	log *slog.Logger
	nc  atomic.Pointer[nats.Conn]

	mu     sync.Mutex
	reason string
	// found is set once there was a bus. Before that, its absence is part of a start:
	// services start side by side.
	found bool
}

func (o *outage) because(err error) {
	if err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if reason := err.Error(); reason != o.reason {
		o.reason = reason
		level := slog.LevelInfo
		if o.found {
			level = slog.LevelWarn
		}
		o.log.Log(context.Background(), level, "bus not reachable, looking for it", "error", err)
	}
}

func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reason, o.found = "", true
}

// delay implements nats.ReconnectDelayHandler.
func (o *outage) delay(attempts int) time.Duration {
	if nc := o.nc.Load(); nc != nil {
		o.because(nc.LastError())
	}
	return reconnectDelay(attempts)
}

// A lost connection is tried again after firstDelay, then after twice as long
// each time up to lastDelay, always plus up to as much again by chance, so that
// many routers do not come back in one moment.
const (
	firstDelay = 20 * time.Millisecond
	lastDelay  = 500 * time.Millisecond
)

func reconnectDelay(attempts int) time.Duration {
	d := lastDelay
	if attempts < 16 {
		d = min(d, firstDelay<<max(attempts-1, 0))
	}
	return d + rand.N(d)
}
