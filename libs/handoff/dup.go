package handoff

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dup gives a descriptor of its own (close-on-exec) for a connection, without
// touching the connection's mode. The caller closes it.
func Dup(c syscall.Conn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("duplicate descriptor: %w", err)
	}
	fd, derr := -1, error(nil)
	if err := raw.Control(func(orig uintptr) {
		fd, derr = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 3)
	}); err != nil {
		return -1, fmt.Errorf("duplicate descriptor: %w", err)
	}
	if derr != nil {
		return -1, fmt.Errorf("duplicate descriptor: %w", derr)
	}
	return fd, nil
}
