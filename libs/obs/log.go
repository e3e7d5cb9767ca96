package obs

import (
	"fmt"
	"io"
	"log/slog"
)

// Log formats, the values of observability.log_format.
const (
	Text = "text"
	JSON = "json"
)

// NewLogger writes structured lines of at least the given level to w, as JSON
// objects or, for any other format, as text.
func NewLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == JSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// ParseLevel reads the value of the flag -log-level.
func ParseLevel(s string) (slog.Level, error) {
	switch s {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q does not exist: use debug, info, warn or error", s)
}
