package busserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long it may take to see whether a taken address is a neighbour's: two
// lagpollers that start at the same moment try it before they share it.
const settle = time.Second

// openDoor listens on bus.listen, together with the neighbours that do: the kernel
// gives each connection to one of them, and those that come after one has ended to the
// others. Anybody else who has the address is told of.
func openDoor(ctx context.Context, address string, near func() ([]note, error)) (net.Listener, error) {
	shared := net.ListenConfig{Control: reusePort}
	var l net.Listener
	err := settled(ctx, func() error {
		notes, err := near()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(notes, func(n note) bool { return n.Listen == address }) {
			if err := free("bus.listen", address); err != nil {
				return err
			}
		}
		if l, err = shared.Listen(ctx, "tcp", address); err != nil {
			return taken("bus.listen", address, err)
		}
		return nil
	})
	return l, err
}

// settled tries again for a while as long as an address is taken.
func settled(ctx context.Context, try func() error) error {
	for deadline := time.Now().Add(settle); ; {
		err := try()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settle / 50):
		}
	}
}

func reusePort(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); cerr != nil {
		return cerr
	}
	return err
}

// free says in one sentence why an address cannot be listened on.
func free(key, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return taken(key, address, err)
	}
	return l.Close()
}

// takenError is for whoever gave the address.
type takenError struct {
	what string
	err  error
}

func (e *takenError) Error() string { return e.what }
func (e *takenError) Unwrap() error { return e.err }

func taken(key, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &takenError{fmt.Sprintf("%s %s is taken by another program: stop it (another lagpoller or NATS server?) or choose another address", key, address), err}
	}
	return fmt.Errorf("%s %s cannot be listened on: %w", key, address, err)
}
