package sibling

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

var key = handoff.CancelKey{PID: 7, Secret: []byte{1}}

func newDir(t *testing.T) *rundir.Dir {
	t.Helper()
	folder, err := os.MkdirTemp("", "sibling-") // t.TempDir has the test's name, for which a socket's path has no room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	dir, err := rundir.Open(filepath.Join(folder, "r"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// claim takes a listener's names until the test ends.
func claim(t *testing.T, dir *rundir.Dir, id string) *rundir.Socket {
	t.Helper()
	c, err := dir.Claim(rundir.Listener, id)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// parked are sessions that all are found, or that nothing is heard of.
type parked struct{ hangs bool }

func (p parked) CancelParked(ctx context.Context, _ handoff.CancelKey, over func(bool)) {
	if p.hangs {
		<-ctx.Done()
	}
	over(!p.hangs)
}
func (parked) Receive(*handoff.Conn, *handoff.Message) error { return nil }
func (parked) LeaveParked([]string)                          {}
func (parked) Gone([]string)                                 {}

// hosts answers siblings until the test ends.
func hosts(t *testing.T, dir *rundir.Dir, id string, p Parked) {
	t.Helper()
	l := claim(t, dir, id)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	h := &Host{Parked: p, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	wg.Go(func() {
		if err := h.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
}

// complaints counts what is logged as a warning or worse.
type complaints struct {
	slog.Handler
	mu sync.Mutex
	n  int
}

func (c *complaints) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		c.n++
	}
	return c.Handler.Handle(ctx, r)
}

// Who has found the session need not wait for those that hang.
func TestCancelRequestsThatAreFound(t *testing.T) {
	dir := newDir(t)
	claim(t, dir, "2") // it accepts nothing
	hosts(t, dir, "3", parked{})
	said := &complaints{Handler: slog.NewTextHandler(t.Output(), nil)}
	found, others := NewKin(dir, "1", slog.New(said)).Cancel(t.Context(), key)
	if !found || !others {
		t.Errorf("found %v, others %v", found, others)
	}
	if said.n > 0 {
		t.Error("the one that hangs was waited for")
	}
}

// A cancel request is answered for as long as somebody waits for that.
func TestCancelRequestsAreAnsweredInTime(t *testing.T) {
	dir := newDir(t)
	hosts(t, dir, "2", parked{hangs: true})
	said := &complaints{Handler: slog.NewTextHandler(t.Output(), nil)}
	if found, others := NewKin(dir, "1", slog.New(said)).Cancel(t.Context(), key); found || !others {
		t.Errorf("found %v, others %v", found, others)
	}
	if said.n > 0 {
		t.Error("there was no answer")
	}
}

// One that has not answered is given a single session at a time, and everything once it has
// answered.
func TestWhoIsGivenSessions(t *testing.T) {
	k := NewKin(nil, "1", slog.New(slog.DiscardHandler))
	now := time.Now()
	may := func(want bool, why string) {
		t.Helper()
		if k.mayAnswer("2", now) != want {
			t.Errorf("%s: %v", why, !want)
		}
	}
	may(true, "nothing is known of it")
	k.heard("2", errSilent, now)
	may(false, "it has not answered")
	now = now.Add(shunTime)
	may(true, "a while later")
	may(false, "while it is being asked")
	k.heard("2", errSilent, now)
	may(false, "it has not answered again")
	now = now.Add(shunTime)
	may(true, "a while later")
	k.heard("2", nil, now)
	may(true, "it has answered")
	may(true, "it has answered")
}
