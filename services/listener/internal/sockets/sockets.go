package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/tcp"
)

// ErrTaken reports that another process has a port or a Unix socket.
var ErrTaken = errors.New("taken")

// Taken gives an error that is [ErrTaken] and says what to do in words of its own.
func Taken(format string, args ...any) error { return &takenError{fmt.Sprintf(format, args...)} }

type takenError struct{ text string }

func (e *takenError) Error() string        { return e.text }
func (e *takenError) Is(target error) bool { return target == ErrTaken }

// Set is the open sockets. It belongs to whoever opened it.
type Set struct {
	// Listeners accept *net.TCPConn and *net.UnixConn.
	Listeners []net.Listener
	lock      *lockFile
}

// Open listens on a TCP address and in a folder for Unix sockets; either may be
// empty, both may not. The Unix socket is named after the TCP port, 6432 if there
// is none. Sockets that systemd opened for this process take the place of both.
func Open(ctx context.Context, address, folder string, t config.TCP) (_ *Set, err error) {
	if s, err := passed(t); s != nil || err != nil {
		return s, err
	}
	if address == "" && folder == "" {
		return nil, errors.New("nothing to listen on: set listen to host:port or listen_unix to a folder")
	}
	s := &Set{}
	defer func() {
		if err != nil {
			_ = s.Close() // the first error is the one to report
		}
	}()
	port := "6432"
	if address != "" {
		if port, err = s.openTCP(ctx, address, t); err != nil {
			return nil, err
		}
	}
	if folder != "" {
		if err := s.openUnix(folder, port); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// openTCP listens on every address the host stands for, as PostgreSQL does:
// localhost is 127.0.0.1 and ::1. A family that this machine does not have is
// left out.
func (s *Set) openTCP(ctx context.Context, address string, t config.TCP) (port string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("listen is %q: want host:port, such as localhost:6432 or *:6432", address)
	}
	if host == "*" {
		host = ""
	}
	hosts := []string{host}
	if host != "" && net.ParseIP(host) == nil {
		if hosts, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return "", fmt.Errorf("resolve listen address %q: %w", address, err)
		}
	}
	var missing error
	lc := tcp.ListenConfig(t)
	for _, h := range hosts {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(h, port))
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			return "", Taken("listen on %s: the port is taken; stop the program that has it or change listen in the configuration", net.JoinHostPort(h, port))
		case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT):
			missing = err
			continue
		case err != nil:
			return "", fmt.Errorf("listen on %s: %w", net.JoinHostPort(h, port), err)
		}
		s.Listeners = append(s.Listeners, l)
		if port == "0" { // every family gets the port that the first was given
			_, port, _ = net.SplitHostPort(l.Addr().String()) // our own listener's address
		}
	}
	if len(s.Listeners) == 0 {
		return "", fmt.Errorf("listen on %s: none of its addresses is one of this machine: %w", address, missing)
	}
	return port, nil
}

// Addresses lists what clients can connect to.
func (s *Set) Addresses() string {
	var as []string
	for _, l := range s.Listeners {
		as = append(as, l.Addr().String())
	}
	return strings.Join(as, ", ")
}

// Close stops listening and removes the Unix socket, unless another listener shares it.
func (s *Set) Close() error {
	var errs []error
	for _, l := range s.Listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close listening socket: %w", err))
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	return errors.Join(errs...)
}
