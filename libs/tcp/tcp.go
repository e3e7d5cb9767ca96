// Package tcp puts the configuration's section tcp on sockets, so that a peer that
// is gone without a word is noticed: keepalive probes, and a limit on how long sent
// data may go unacknowledged (PostgreSQL documentation, "TCP Settings"; tcp(7)).
package tcp

import (
	"fmt"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/config"
)

// Dialer opens connections with these settings.
func Dialer(t config.TCP) *net.Dialer {
	return &net.Dialer{KeepAliveConfig: keepalive(t), Control: control(t)}
}

// ListenConfig opens listening sockets whose accepted connections have these
// settings.
func ListenConfig(t config.TCP) *net.ListenConfig {
	return &net.ListenConfig{KeepAliveConfig: keepalive(t), Control: control(t)}
}

func keepalive(t config.TCP) net.KeepAliveConfig {
	k := net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1} // the system's
	if t.KeepalivesIdle > 0 {
		k.Idle = t.KeepalivesIdle.D()
	}
	if t.KeepalivesInterval > 0 {
		k.Interval = t.KeepalivesInterval.D()
	}
	if t.KeepalivesCount > 0 {
		k.Count = t.KeepalivesCount
	}
	return k
}

// control sets what package net has no name for. A connection inherits it from the
// listening socket.
func control(t config.TCP) func(network, address string, c syscall.RawConn) error {
	if t.UserTimeout <= 0 {
		return nil
	}
	return func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var serr error
		if err := c.Control(func(fd uintptr) {
			serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(t.UserTimeout.D().Milliseconds()))
		}); err != nil {
			return fmt.Errorf("set tcp.user_timeout: %w", err)
		}
		if serr != nil {
			return fmt.Errorf("set tcp.user_timeout: %w", serr)
		}
		return nil
	}
}
