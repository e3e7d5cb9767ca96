package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// skewed is a library that makes a program's wall clock wrong by SECONDS. The machine's
// own clock is left alone.
const skewed = `
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t which, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, which, ts);
	if (r == 0 && which == CLOCK_REALTIME)
		ts->tv_sec += SECONDS;
	return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;
	long r = clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return r;
}
`

// skew compiles it, and gives its path. The folder is readable for the servers' OS
// user.
func (r *run) skew(seconds int) string {
	dir, err := os.MkdirTemp("", "pgpilot-faults-")
	r.ok(err)
	r.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.ok(os.Chmod(dir, 0o755))
	source, library := filepath.Join(dir, "skewed.c"), filepath.Join(dir, "skewed.so")
	r.ok(os.WriteFile(source, []byte(skewed), 0o644))
	out, err := exec.CommandContext(r.ctx(), "cc", "-shared", "-fPIC", fmt.Sprintf("-DSECONDS=(%d)", seconds), "-o", library, source).CombinedOutput()
	if err != nil {
		r.t.Fatalf("compile the library of a wrong clock: %v\n%s", err, out)
	}
	r.ok(os.Chmod(library, 0o755))
	return library
}

// jumpClock restarts a replica with a clock that is an hour slow or fast, and then
// again with the right one: the times at which it was started do not grow.
func (r *run) jumpClock() {
	s := r.replica()
	s.m.Preload(r.skew([]int{-3600, 3600}[r.r.IntN(2)]))
	r.restarting(s, func() {
		r.ok(s.m.Kill(r.ctx()))
		r.ok(s.m.Start(r.ctx()))
	})
	r.hold(500*time.Millisecond, 1500*time.Millisecond)
	s.m.Preload("")
	r.restarting(s, func() {
		r.ok(s.m.Kill(r.ctx()))
		r.ok(s.m.Start(r.ctx()))
	})
}
