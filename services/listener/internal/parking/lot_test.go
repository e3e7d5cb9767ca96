package parking

import (
	"context"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

const patience = 30 * time.Second

// stage is a running lot.
type stage struct {
	*Lot
	t *testing.T
}

func newStage(t *testing.T) *stage {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
		l.Close()
	})
	return &stage{l, t}
}

// pair gives both ends of a connection.
func (s *stage) pair() (near, far int) {
	s.t.Helper()
	return handofftest.Ends(s.t)
}

func send(t *testing.T, fd int, what string) {
	t.Helper()
	if _, err := unix.Write(fd, []byte(what)); err != nil {
		t.Fatal(err)
	}
}

// What ends a parked session, and what does not.
func TestParkedSessions(t *testing.T) {
	const requests, farewell = "Q\x00\x00\x00\x04", "X\x00\x00\x00\x04"
	for name, c := range map[string]struct {
		pending bool
		do      func(client, server int)
		ends    bool
		words   string
	}{
		"nothing":                             {do: func(_, _ int) {}},
		"its client sends a request":          {do: func(c, _ int) { send(t, c, requests) }},
		"its server says something":           {do: func(_, s int) { send(t, s, "A\x00\x00\x00\x04") }},
		"its client is gone":                  {do: func(c, _ int) { _ = unix.Close(c) }, ends: true},
		"its client takes its leave":          {do: func(c, _ int) { send(t, c, farewell); _ = unix.Shutdown(c, unix.SHUT_WR) }, ends: true},
		"its client closes its side only":     {do: func(c, _ int) { _ = unix.Shutdown(c, unix.SHUT_WR) }, ends: true},
		"the same, with a request before":     {do: func(c, _ int) { send(t, c, requests); _ = unix.Shutdown(c, unix.SHUT_WR) }},
		"the same, with one read already":     {pending: true, do: func(c, _ int) { _ = unix.Shutdown(c, unix.SHUT_WR) }},
		"its server ends the connection":      {do: func(_, s int) { send(t, s, "E fatal"); _ = unix.Close(s) }, ends: true, words: "E fatal"},
		"its server is gone without a word":   {do: func(_, s int) { _ = unix.Close(s) }, ends: true},
		"its server speaks, then ends it all": {do: func(_, s int) { send(t, s, "A notice,"); send(t, s, "E fatal"); _ = unix.Close(s) }, ends: true, words: "A notice,E fatal"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			client, clientEnd := s.pair()
			server, serverEnd := s.pair()
			gone := make(chan string, 2)
			spot, err := s.Park(client, []int{server}, c.pending, func(words []byte) { gone <- string(words) })
			if err != nil {
				t.Fatal(err)
			}
			c.do(clientEnd, serverEnd)
			if c.ends {
				select {
				case words := <-gone:
					if words != c.words {
						t.Errorf("the last words are %q", words)
					}
				case <-time.After(patience):
					t.Fatal("nobody notices")
				}
				if spot.Take() {
					t.Error("it could still be taken")
				}
				return
			}
			// Another one, parked later and gone, shows that the lot has looked.
			other, otherEnd := s.pair()
			looked := make(chan struct{})
			if _, err := s.Park(other, nil, false, func([]byte) { close(looked) }); err != nil {
				t.Fatal(err)
			}
			_ = unix.Close(otherEnd)
			select {
			case <-looked:
			case <-time.After(patience):
				t.Fatal("the lot does not look")
			}
			if len(gone) > 0 || !spot.Take() {
				t.Error("it has ended")
			}
		})
	}
}

// A session that has been taken out is not looked at any more, and can be parked again.
func TestTakenSessions(t *testing.T) {
	s := newStage(t)
	client, end := s.pair()
	gone := make(chan struct{}, 1)
	park := func() *Spot {
		spot, err := s.Park(client, nil, false, func([]byte) { gone <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		return spot
	}
	if spot := park(); !spot.Take() || spot.Take() {
		t.Fatal("it is taken otherwise than once")
	}
	park()
	_ = unix.Close(end)
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("nobody notices")
	}
	if _, err := s.Park(-1, nil, false, func([]byte) {}); err == nil {
		t.Error("no descriptor was parked")
	}
}
