package busserver

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// lockedBuffer is written by the server's goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestRefusedClientsDoNotFillTheLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	l := &natsLogger{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	for range 5 {
		l.Errorf("client - Publish Violation - Subject %q", "pgpilot.topology")
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "pgpilot.topology") {
		t.Errorf("five refusals are told as\n%s", got)
	}
	out.Reset()
	now = now.Add(refusalPause)
	l.Errorf("client - Subscription Violation - Subject %q", "x")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "untold=4") {
		t.Errorf("a later refusal is told as\n%s", got)
	}
	out.Reset()
	l.Errorf("disk is on fire")
	if got := out.String(); !strings.Contains(got, "level=ERROR") {
		t.Errorf("an error is told as %s", got)
	}
}

// The words of the embedded server are what the logger goes by.
func TestAStrangersPublishIsAWarning(t *testing.T) {
	d := tempRun(t)
	var out lockedBuffer
	s, err := Start(t.Context(), Options{
		Bus: config.Bus{Listen: "127.0.0.1:0"}, Claim: claim(t, d, "1"), Dir: d, Log: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	nc, refused := stranger(t, s)
	if err := nc.Publish("pgpilot.topology", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	<-refused
	flush(t, nc) // the server logs before it reads on
	if got := out.String(); !strings.Contains(got, "level=WARN msg=\"bus client refused\"") || strings.Contains(got, "level=ERROR") {
		t.Errorf("the log says\n%s", got)
	}
}
