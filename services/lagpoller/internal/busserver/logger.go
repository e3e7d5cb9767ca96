package busserver

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// refusalPause is how long the log stays silent about refused clients after a line
// about one: anybody may connect and try what is not allowed, as often as he likes.
const refusalPause = 10 * time.Second

// natsLogger sends the server's log to the service's. What is notable to a NATS
// operator is detail here, and what a stranger is refused is no error of the bus.
type natsLogger struct {
	log *slog.Logger
	// fatal gets the first fatal message: the reason why the server did not start.
	fatal chan string
	now   func() time.Time

	mu sync.Mutex
	// told is when the log last told of a refusal, untold how many came since.
	told   time.Time
	untold int
}

func (l *natsLogger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *natsLogger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *natsLogger) Debugf(format string, v ...any)  {}
func (l *natsLogger) Tracef(format string, v ...any)  {}

func (l *natsLogger) Errorf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	switch {
	// "Publish Violation", "Subscription Violation": the server gives them no kind.
	case strings.Contains(format, " Violation"), strings.Contains(msg, "TLS route handshake error"):
		l.refused(msg)
	case strings.Contains(msg, "route"):
		// A neighbour that has ended, or is not there yet; the server goes on trying.
		l.log.Warn("bus of another lagpoller", obs.KeyReason, msg)
	default:
		l.log.Error(msg)
	}
}

func (l *natsLogger) refused(msg string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.told.IsZero() && now.Sub(l.told) < refusalPause {
		l.untold++
		return
	}
	l.log.Warn("bus client refused", "why", msg, "untold", l.untold)
	l.told, l.untold = now, 0
}

// Fatalf does not end the process: Start reports the reason.
func (l *natsLogger) Fatalf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	l.log.Error(msg)
	select {
	case l.fatal <- msg:
	default:
	}
}
