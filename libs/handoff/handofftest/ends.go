package handofftest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Ends gives both ends of a connection. The near one is closed with the test, the far one is
// the caller's to pass on or to close.
func Ends(t testing.TB) (near, far int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[0]) })
	return fds[0], fds[1]
}
