package bus

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// SocketName is a name in the run directory for any one of its lagpollers' sockets:
// what services of the release before look for.
const SocketName = "bus.sock"

// dialTimeout of a Unix socket, which answers at once or is overloaded.
const dialTimeout = 2 * time.Second

// socketDialer leads every address to a lagpoller of the run directory, each time to
// the one after the last: that one may hang, and then takes connections all the same.
// The client dials one at a time.
type socketDialer struct {
	ctx  context.Context
	dir  *rundir.Dir
	turn int
}

func newSocketDialer(ctx context.Context, dir *rundir.Dir) *socketDialer {
	return &socketDialer{ctx: ctx, dir: dir, turn: rand.IntN(1 << 16)} // not all services to one
}

// Dial implements nats.CustomDialer.
func (d *socketDialer) Dial(string, string) (net.Conn, error) {
	paths, err := d.sockets()
	d.turn++
	for i := range paths {
		c, failed := d.dial(paths[(d.turn+i)%len(paths)])
		if failed == nil {
			d.turn += i
			return c, nil
		}
		err = errors.Join(err, failed)
	}
	return nil, err // not c: the client keeps what it gets and closes it if it is not nil
}

// sockets gives where the bus may be reached: at the lagpollers' own sockets, or at
// the common name, which is all that one of the release before has.
func (d *socketDialer) sockets() ([]string, error) {
	found, err := d.dir.List(rundir.Lagpoller)
	if len(found) == 0 {
		return []string{d.dir.Join(SocketName)}, err
	}
	paths := make([]string, 0, len(found))
	for _, in := range found {
		paths = append(paths, in.Socket)
	}
	return paths, nil
}

func (d *socketDialer) dial(path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, dialTimeout)
	defer cancel()
	return rundir.Dial(ctx, path)
}
