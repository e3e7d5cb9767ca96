package probe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// History asks where the timelines before t ended, oldest first. The first
// timeline has no history file and no question is sent.
func (c *Conn) History(t lsn.Timeline, timeout time.Duration) ([]lsn.Position, error) {
	if t <= 1 {
		return nil, nil
	}
	var content string
	found := false
	err := c.exchange(time.Now().Add(timeout), func(_ int, v [][]byte) error {
		if len(v) != 2 {
			return fmt.Errorf("TIMELINE_HISTORY gave %d columns instead of 2", len(v))
		}
		content, found = string(v[1]), true
		return nil
	}, fmt.Sprintf("TIMELINE_HISTORY %d", t))
	if err != nil {
		return nil, fmt.Errorf("ask for the history of timeline %d: %w", t, err)
	}
	if !found {
		return nil, fmt.Errorf("ask for the history of timeline %d: %w", t, errNoRow)
	}
	return parseHistory(content)
}

var errNoRow = errors.New("the server gave no row")

// parseHistory reads a timeline history file: lines of timeline, switch point and
// reason, separated by white space; lines that start with # are comments
// (readTimeLineHistory in PostgreSQL's timeline.c).
func parseHistory(content string) ([]lsn.Position, error) {
	var out []lsn.Position
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("read the timeline history: line %q has no switch point", strings.TrimSpace(line))
		}
		timeline, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read the timeline history: %w", err)
		}
		at, err := lsn.Parse(fields[1])
		if err != nil {
			return nil, fmt.Errorf("read the timeline history: %w", err)
		}
		if n := len(out); n > 0 && lsn.Timeline(timeline) <= out[n-1].Timeline {
			return nil, fmt.Errorf("read the timeline history: timeline %d comes after %d", timeline, out[n-1].Timeline)
		}
		out = append(out, lsn.Position{Timeline: lsn.Timeline(timeline), LSN: at})
	}
	return out, nil
}
