package busserver

import (
	"fmt"
	"log/slog"
)

// natsLogger sends the server's log to the service's. What is notable to a NATS
// operator is detail here.
type natsLogger struct {
	log *slog.Logger
	// fatal gets the first fatal message: the reason why the server did not start.
	fatal chan string
}

func (l *natsLogger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *natsLogger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *natsLogger) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l *natsLogger) Debugf(format string, v ...any)  {}
func (l *natsLogger) Tracef(format string, v ...any)  {}

// Fatalf does not end the process: Start reports the reason.
func (l *natsLogger) Fatalf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	l.log.Error(msg)
	select {
	case l.fatal <- msg:
	default:
	}
}
