package e2e

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// A router takes as many sessions as it has descriptors for. The others of a router that stops
// beside it wait in the listener until it has more: every session is somebody's, and none has
// lost anything.
func TestSessionsMoveToARouterWithFewDescriptors(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Lab: newCluster(t), Routers: 2}, nil)
	ks := r.keepers()
	for range 60 {
		c := r.connect()
		ks = append(ks, keeper{c, "idle", func() { c.must("SELECT 1") }})
	}
	checkAll(t, "before", ks)
	all := float64(len(ks) + 1)
	counted := func() bool { return r.metric("pgpilot_listener_clients") == all }

	pid := r.Service(rundir.Router, 2).Pid()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: uint64(len(open) + 10), Max: before.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Service(rundir.Router, 1).Terminate(timeout(t)); err != nil {
		t.Fatal(err)
	}
	refused := func() float64 { return r.metric("pgpilot_listener_handoffs_total", "result", "refused") }
	r.until("the router has refused sessions, which wait", func() bool {
		return refused() > 0 && r.metric("pgpilot_listener_parked") > 0
	})
	if waiting := r.metric("pgpilot_listener_parked"); waiting >= all {
		t.Errorf("%v of %v sessions wait", waiting, all)
	}
	again := refused()
	r.until("it has been asked again", func() bool { return refused() > again })
	if !counted() {
		t.Errorf("the listener counts %v clients of %v", r.metric("pgpilot_listener_clients"), all)
	}
	for _, k := range ks {
		if k.gone() {
			t.Errorf("the session %q is gone", k.name)
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
		t.Fatal(err)
	}
	r.until("nobody waits any more", func() bool { return r.metric("pgpilot_listener_parked") == 0 })
	checkAll(t, "when there are descriptors again", ks)
	if r.Service(rundir.Router, 2).Pid() != pid {
		t.Error("the router has been started anew")
	}
	r.until("all are counted", counted)
}
