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
	cred, err := peer(c)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("peer runs as uid %d, but this service runs as uid %d: run every pgpilot service as the same user", cred.Uid, os.Geteuid())
	}
	return nil
}

// PeerHere reports whether the other end of a connection was opened by a process of
// this process's PID namespace, which in a container means by this container: the
// kernel gives no pid for any other (unix(7), SO_PEERCRED).
func PeerHere(c *net.UnixConn) (bool, error) {
	cred, err := peer(c)
	if err != nil {
		return false, err
	}
	return cred.Pid != 0, nil
}

func peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("check peer: %w", err)
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("check peer: %w", err)
	}
	if cerr != nil {
		return nil, fmt.Errorf("check peer: %w", cerr)
	}
	return cred, nil
}
