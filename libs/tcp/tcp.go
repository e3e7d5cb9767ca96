// Package tcp puts the configuration's section tcp on sockets, so that a peer that
// is gone without a word is noticed: keepalive probes, and a limit on how long sent
// data may go unacknowledged (PostgreSQL documentation, "TCP Settings"; tcp(7)).
package tcp

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

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

// Listener gives the connections of a listening socket that somebody else has opened
// these settings; where they say nothing, those of the socket itself count. It owns
// the socket.
func Listener(l net.Listener, t config.TCP) (net.Listener, error) {
	own, ok := l.(*net.TCPListener)
	if !ok {
		return l, nil
	}
	raw, err := own.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read the TCP settings of a listening socket: %w", err)
	}
	k := keepalive(t)
	var errs [3]error
	if err := raw.Control(func(fd uintptr) {
		read := func(name int) (int, error) { return unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name) }
		var n int
		if k.Idle < 0 {
			n, errs[0] = read(unix.TCP_KEEPIDLE)
			k.Idle = time.Duration(n) * time.Second
		}
		if k.Interval < 0 {
			n, errs[1] = read(unix.TCP_KEEPINTVL)
			k.Interval = time.Duration(n) * time.Second
		}
		if k.Count < 0 {
			k.Count, errs[2] = read(unix.TCP_KEEPCNT)
		}
	}); err != nil {
		return nil, fmt.Errorf("read the TCP settings of a listening socket: %w", err)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("read the TCP settings of a listening socket: %w", err)
	}
	return &tuned{own, k, control(t)}, nil
}

type tuned struct {
	*net.TCPListener
	keepalive net.KeepAliveConfig
	control   func(network, address string, c syscall.RawConn) error
}

// Accept implements net.Listener.
func (l *tuned) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err != nil {
		return nil, err
	}
	t := c.(*net.TCPConn)
	// Both fail only on a connection that has failed already, which its reader will see.
	_ = t.SetKeepAliveConfig(l.keepalive)
	if raw, err := t.SyscallConn(); err == nil && l.control != nil {
		_ = l.control("tcp", "", raw)
	}
	return c, nil
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
