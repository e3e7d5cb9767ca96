package handofftest

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// crowd is the limit of open files while there is a crowd. The test's process must have
// fewer.
const crowd = 200

// Crowd has as many descriptors on their way as a process may have open, until release is
// called or the test ends: none can be sent meanwhile by the calling goroutine, which is
// bound to a thread that has not the privileges to do so nevertheless (unix(7)).
func Crowd(t testing.TB) (release func()) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_RESOURCE
	if err := unix.Capset(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	restore := Limit(t, crowd)
	release = sync.OnceFunc(func() {
		restore()
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
	})
	t.Cleanup(release)
	few := []int{fds[0], fds[0], fds[0], fds[0], fds[0], fds[0], fds[0], fds[0]}
	for {
		switch err := unix.Sendmsg(fds[0], []byte{0}, unix.UnixRights(few...), nil, 0); err {
		case nil, unix.EINTR:
		case unix.ETOOMANYREFS:
			return release
		default:
			t.Fatalf("fill the way: %v", err)
		}
	}
}

// Limit lets this process have so many open files until restore is called or the test ends.
// Those that it has stay open.
func Limit(t testing.TB, files uint64) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	restore = sync.OnceFunc(func() {
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(restore)
	return restore
}

// Exhaust leaves this process room for so many more open files, until restore is called or
// the test ends.
func Exhaust(t testing.TB, room int) (restore func()) {
	t.Helper()
	return Limit(t, firstFree(t, room))
}

// firstFree gives the number above which no descriptor is opened as long as room others are
// free.
func firstFree(t testing.TB, room int) uint64 {
	t.Helper()
	var held []int
	defer func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	}()
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, fd)
		if len(held) > room {
			return uint64(fd)
		}
	}
}
