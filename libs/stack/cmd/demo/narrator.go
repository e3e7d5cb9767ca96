package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/stack"
)

// narrator writes the story. Lines come from the walk and from the bus at the same
// time; each is written whole.
type narrator struct {
	fast   bool
	colour bool

	mu      sync.Mutex
	out     io.Writer
	chapter int
}

func newNarrator(out io.Writer, fast bool) *narrator {
	n := &narrator{out: out, fast: fast}
	if file, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
		info, err := file.Stat()
		n.colour = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return n
}

// Styles (ECMA-48, SGR).
const (
	bold = "1"
	dim  = "2"
	cyan = "36"
)

func (n *narrator) line(style, text string) {
	if n.colour && style != "" {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintln(n.out, text) // a reader who has left is no reason to leave replay paused
}

// title opens a chapter.
func (n *narrator) title(text string) {
	n.chapter++
	n.line("", "")
	n.line(bold, fmt.Sprintf("%d. %s", n.chapter, text))
}

// tell explains.
func (n *narrator) tell(text string) {
	for line := range strings.Lines(text) {
		n.line("", "   "+strings.TrimRight(line, "\n"))
	}
}

// statement shows what is sent, as at psql's prompt.
func (n *narrator) statement(session, sql string) { n.line(cyan, "   "+session+"=> "+sql) }

// reasonWrite is the reason of a write in SHOW pgpilot.last_route.
const reasonWrite = "write"

// answer shows what came back and where from.
func (n *narrator) answer(value string, r stack.Route) {
	if value != "" {
		n.line("", "      "+value)
	}
	text := "      on " + r.Backend + " (" + r.Role + "), reason " + r.Reason
	// What a write waits for is not the point: it leaves a new fence.
	if r.Fence != "" && r.Reason != reasonWrite {
		text += ", fence " + r.Fence
	}
	if r.Replayed != "" {
		text += ", replayed " + r.Replayed
	}
	n.line(bold, text)
}

// event shows news from the bus.
func (n *narrator) event(text string) { n.line(dim, "        bus: "+text) }

// pause gives the reader time.
func (n *narrator) pause(ctx context.Context, d time.Duration) {
	if n.fast {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// session is a client's connection through pgpilot whose statements are shown.
type session struct {
	name string
	conn *pgx.Conn
	say  *narrator
}

// ask runs a statement, shows it and its first value, and where it ran.
func (s *session) ask(ctx context.Context, sql string) (string, stack.Route, error) {
	s.say.statement(s.name, sql)
	value, route, err := s.quietly(ctx, sql)
	if err == nil {
		s.say.answer(value, route)
	}
	return value, route, err
}

// quietly runs a statement without showing it.
func (s *session) quietly(ctx context.Context, sql string) (string, stack.Route, error) {
	rows, err := s.conn.Query(ctx, sql)
	if err != nil {
		return "", stack.Route{}, fmt.Errorf("run %q: %w", sql, err)
	}
	value := ""
	if rows.Next() {
		values, err := rows.Values()
		if err != nil {
			rows.Close()
			return "", stack.Route{}, fmt.Errorf("read the answer to %q: %w", sql, err)
		}
		value = fmt.Sprint(values[0])
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return "", stack.Route{}, fmt.Errorf("run %q: %w", sql, err)
	}
	route, err := stack.LastRoute(ctx, s.conn)
	return value, route, err
}
