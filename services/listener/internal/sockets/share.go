package sockets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/tcp"
)

// Kinds of descriptors that listeners share (handoff.Share).
const (
	kindTCP     = "tcp"
	kindUnix    = "unix"
	kindLock    = "lock"
	kindMetrics = "metrics"
)

// Share gives duplicates of the sockets, and of the one for metrics if there is one,
// with what they are. Clients that connect from then on are accepted by whoever is
// quicker, and no connection is lost when one of both closes its copies. The descriptors
// are the caller's.
func (s *Set) Share(metrics net.Listener) (kinds []string, fds []int, err error) {
	defer func() {
		if err != nil {
			handoff.CloseFDs(fds)
		}
	}()
	add := func(kind string, c any) error {
		sc, ok := c.(syscall.Conn)
		if !ok {
			return fmt.Errorf("share %T: it has no descriptor", c)
		}
		fd, err := handoff.Dup(sc)
		if err == nil {
			kinds, fds = append(kinds, kind), append(fds, fd)
		}
		return err
	}
	for _, l := range s.Listeners {
		if err := add(map[string]string{"tcp": kindTCP, "unix": kindUnix}[l.Addr().Network()], l); err != nil {
			return nil, fds, err
		}
	}
	if s.lock != nil {
		if err := add(kindLock, s.lock.f); err != nil {
			return nil, fds, err
		}
	}
	if metrics != nil {
		if err := add(kindMetrics, metrics); err != nil {
			return nil, fds, err
		}
	}
	if len(fds) > handoff.MaxFDs {
		return nil, fds, fmt.Errorf("share sockets: %d are more than %d", len(fds), handoff.MaxFDs)
	}
	return kinds, fds, nil
}

// Adopt takes over what another listener shares. The descriptors are its own from now
// on, whatever it returns.
func Adopt(kinds []string, fds []int, t config.TCP) (s *Set, metrics net.Listener, err error) {
	s = &Set{}
	defer func() {
		handoff.CloseFDs(fds) // what is left
		if err == nil {
			return
		}
		_ = s.Close() // the first error is the one to report
		if metrics != nil {
			_ = metrics.Close()
		}
	}()
	if len(kinds) != len(fds) {
		return s, nil, fmt.Errorf("take sockets over: %d descriptors for %d sockets", len(fds), len(kinds))
	}
	var lock *os.File
	for _, kind := range kinds {
		fd := fds[0]
		fds = fds[1:]
		if kind == kindLock {
			lock = os.NewFile(uintptr(fd), "lock file")
			s.lock = &lockFile{f: lock}
			continue
		}
		l, err := passedListener(fd)
		if err != nil {
			return s, metrics, err
		}
		switch kind {
		case kindTCP, kindUnix:
			tuned, err := tcp.Listener(l, t)
			if err != nil {
				return s, metrics, errors.Join(err, l.Close())
			}
			s.Listeners = append(s.Listeners, tuned)
		case kindMetrics:
			metrics = l
		default:
			return s, metrics, errors.Join(fmt.Errorf("take sockets over: unknown kind %q", kind), l.Close())
		}
	}
	return s, metrics, s.adoptLock()
}

// adoptLock makes the lock that came along that of the Unix socket which came along.
func (s *Set) adoptLock() error {
	if s.lock == nil {
		return nil
	}
	for _, l := range s.Listeners {
		if l.Addr().Network() != "unix" {
			continue
		}
		path, err := filepath.Abs(l.Addr().String())
		if err != nil {
			return fmt.Errorf("take the Unix socket over: %w", err)
		}
		s.lock.socket, s.lock.bound = path, true
		return s.lock.write(portOf(path))
	}
	return errors.New("take sockets over: a lock file without its socket")
}

// portOf gives the port in the name of a Unix socket, .s.PGSQL.port.
func portOf(socket string) string {
	if ext := filepath.Ext(socket); len(ext) > 1 {
		return ext[1:]
	}
	return ""
}
