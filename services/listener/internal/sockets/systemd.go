package sockets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/tcp"
)

// firstPassed is the first descriptor that systemd passes (SD_LISTEN_FDS_START).
const firstPassed = 3

// passed takes over the sockets that systemd opened for this process, none if it did
// not (sd_listen_fds(3)). They stay open in systemd: clients that connect while no
// listener runs wait in the queue.
func passed(t config.TCP) (_ *Set, err error) {
	// The variables also reach processes that are not meant, such as those that a wrapper starts.
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 {
		return nil, fmt.Errorf("LISTEN_FDS is %q: want the number of sockets that systemd passes", os.Getenv("LISTEN_FDS"))
	}
	if n == 0 {
		return nil, nil
	}
	s := &Set{}
	defer func() {
		if err != nil {
			_ = s.Close() // the first error is the one to report
		}
	}()
	for fd := firstPassed; fd < firstPassed+n; fd++ {
		l, err := passedListener(fd)
		if err != nil {
			return nil, err
		}
		tuned, err := tcp.Listener(l, t)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		s.Listeners = append(s.Listeners, tuned)
	}
	return s, nil
}

// passedListener owns fd from now on.
func passedListener(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "passed socket "+strconv.Itoa(fd))
	defer f.Close() // the listener has a duplicate
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, fmt.Errorf("take over descriptor %d, which was passed: %w", fd, err)
	}
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return nil, fmt.Errorf("take over descriptor %d, which was passed: %w", fd, err)
	}
	if kind != unix.SOCK_STREAM || listens == 0 {
		return nil, fmt.Errorf("descriptor %d, which systemd passed, is no listening stream socket: use only ListenStream= and Accept=no in the .socket unit", fd)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over descriptor %d, which was passed: %w", fd, err)
	}
	return l, nil
}
