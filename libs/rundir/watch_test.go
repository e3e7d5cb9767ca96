package rundir

import (
	"context"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

// Without notifications, and at first without a descriptor to list the directory with, a
// watcher looks now and then, and says so.
func TestWatchDoesWithoutNotifications(t *testing.T) {
	d := open(t)
	c, err := d.Claim(Classifier, "1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	log := make(lines, 64)
	seen := make(chan int, 16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	restore := handofftest.Exhaust(t, 0) // inotify_init1 says EMFILE, as it does at the limit of its own
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Watch(ctx, Classifier, log.logger(), func(is []Instance) { seen <- len(is) })
	}()
	log.expect(t, "fs.inotify.max_user_instances")
	log.expect(t, "cannot see which services run")
	restore()
	expect := func(want int) {
		t.Helper()
		select {
		case n := <-seen:
			if n != want {
				t.Fatalf("%d instances, want %d", n, want)
			}
		case <-done:
			t.Fatal("it watches no more")
		}
	}
	expect(0)
	s, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expect(1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	expect(0)
	cancel()
	<-done
}
