package rundir

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Dial connects to a socket of the run directory and checks that its owner runs
// as this process's user.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", path, err)
	}
	u := c.(*net.UnixConn)
	if err := CheckPeer(u); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// CheckPeer refuses a connection whose other end runs as another user. The pid
// is not looked at: across containers it is zero.
func CheckPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	if cerr != nil {
		return fmt.Errorf("check peer: %w", cerr)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("peer runs as uid %d, but this service runs as uid %d: run every pgpilot service as the same user", cred.Uid, os.Geteuid())
	}
	return nil
}
