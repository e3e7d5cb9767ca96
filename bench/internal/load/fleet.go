package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// connecting is how many connections are made at the same time.
const connecting = 16

// Fleet is the connected clients of one run.
type Fleet struct {
	opts    Options
	configs []*pgconn.Config
	writes  *pgconn.Config // nil where clients do not choose
	clients []*client
	idle    []int // descriptors
}

// Open connects all clients. A workload that connects anew has none yet.
func Open(ctx context.Context, opts Options) (*Fleet, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	f := &Fleet{opts: opts}
	for _, dsn := range opts.DSNs {
		config, err := pgconn.ParseConfig(dsn)
		if err != nil {
			return nil, fmt.Errorf("read an address of the target: %w", err)
		}
		f.configs = append(f.configs, config)
	}
	var err error
	if opts.Writes != "" {
		if f.writes, err = pgconn.ParseConfig(opts.Writes); err != nil {
			return nil, fmt.Errorf("read the target's address for writes: %w", err)
		}
	}
	if !opts.Workload.Reconnects {
		f.clients = make([]*client, opts.Clients)
		err = f.each(ctx, opts.Clients, func(ctx context.Context, i int) error {
			fd, err := f.connect(ctx, f.configOf(i), true)
			if err != nil {
				return err
			}
			f.clients[i] = newClient(fd, 0, i, opts)
			if f.writes != nil {
				f.clients[i].writes, err = f.connect(ctx, f.writes, true)
			}
			return err
		})
	}
	if err == nil {
		f.idle = make([]int, opts.Idle)
		err = f.each(ctx, opts.Idle, func(ctx context.Context, i int) error {
			fd, err := f.connect(ctx, f.configOf(i), false)
			f.idle[i] = fd
			return err
		})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// each calls do for 0 to n-1, several at a time, and returns the first error.
func (f *Fleet) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range min(connecting, n) {
		wg.Go(func() {
			for i := range numbers {
				if err := do(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		numbers <- i
	}
	close(numbers)
	wg.Wait()
	return context.Cause(ctx)
}

// configOf says where client i connects to.
func (f *Fleet) configOf(i int) *pgconn.Config { return f.configs[i%len(f.configs)] }

// connect logs a client in, prepares what the workload wants prepared, and gives the bare
// descriptor.
func (f *Fleet) connect(ctx context.Context, to *pgconn.Config, prepare bool) (int, error) {
	conn, err := pgconn.ConnectConfig(ctx, to)
	if err != nil {
		return 0, fmt.Errorf("connect a client: %w", err)
	}
	if prepare {
		err = f.opts.Workload.Prepare(f.opts.Protocol, func(name, text string) error {
			_, err := conn.Prepare(ctx, name, text, nil)
			return err
		})
		if err != nil {
			_ = conn.Close(ctx)
			return 0, fmt.Errorf("prepare a statement: %w", err)
		}
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return 0, fmt.Errorf("take a client's connection: %w", err)
	}
	defer hijacked.Conn.Close()
	return duplicate(hijacked.Conn)
}

// duplicate gives a descriptor that the Go runtime does not know.
func duplicate(conn net.Conn) (int, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return 0, errors.New("a client's connection is not a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("take a client's socket: %w", err)
	}
	fd, dupErr := 0, error(nil)
	if err := raw.Control(func(s uintptr) {
		fd, dupErr = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 3)
	}); err != nil {
		dupErr = err
	}
	if dupErr != nil {
		return 0, fmt.Errorf("take a client's socket: %w", dupErr)
	}
	return fd, nil
}

// terminate is a whole Terminate message.
const terminate = string(rune(wire.Terminate)) + "\x00\x00\x00\x04"

// Close says goodbye for every client and closes the connections.
func (f *Fleet) Close() {
	for _, c := range f.clients {
		if c != nil {
			hangup(c.fd)
			hangup(c.writes)
		}
	}
	for _, fd := range f.idle {
		hangup(fd)
	}
	f.clients, f.idle = nil, nil
}

func hangup(fd int) {
	if fd <= 0 {
		return
	}
	// The peer may be gone already.
	_, _ = unix.Write(fd, []byte(terminate))
	_ = unix.Close(fd)
}
