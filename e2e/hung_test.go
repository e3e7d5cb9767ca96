package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// freeze stops all processes of a server, which then neither answers nor closes a
// connection, until the test has ended or thaw is called.
func freeze(t testing.TB, cluster *lab.Cluster, m *lab.Member) (thaw func()) {
	t.Helper()
	var pids []int
	for _, s := range cluster.Status(timeout(t)) {
		if s.Member.Name == m.Name {
			pids = append(children(t, s.PID), s.PID)
		}
	}
	if len(pids) < 2 {
		t.Fatalf("%s has processes %v", m.Name, pids)
	}
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig) // one that has ended meanwhile hangs no less
		}
	}
	signal(syscall.SIGSTOP)
	thaw = sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	t.Cleanup(thaw)
	return thaw
}

// children lists the processes started by another.
func children(t testing.TB, of int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // has ended
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(of) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, pid)
		}
	}
	return out
}

// A replica that hangs with its connections open holds up no read for longer than
// it takes to find out.
func TestReadsLeaveAHungReplica(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Health.Interval = config.Duration(200 * time.Millisecond)
		c.Health.Timeout = config.Duration(500 * time.Millisecond)
		c.Health.FailureThreshold = 2
		// A busy machine may have every server seem to hang for a while.
		c.Failover.Wait, c.Pool.AcquireTimeout = config.Duration(patience), config.Duration(patience)
	})
	var readers []*client
	for range 8 {
		c := r.connect()
		defer c.close()
		c.one("SELECT 1")
		readers = append(readers, c)
	}
	// Some of these are on the replica when it hangs.
	var wg sync.WaitGroup
	failures := make(chan error, len(readers))
	frozen := make(chan struct{})
	for _, c := range readers {
		wg.Go(func() {
			for i := 0; ; i++ {
				if _, err := c.run("SELECT count(*) FROM generate_series(1, 5000)"); err != nil {
					failures <- err
					return
				}
				select {
				case <-frozen:
					failures <- nil
					return
				default:
				}
			}
		})
	}
	freeze(t, cluster, cluster.Replica(1))
	close(frozen)
	wg.Wait() // while the replica still hangs
	for range readers {
		if err := <-failures; err != nil {
			t.Errorf("a read: %v", err)
		}
	}
}
