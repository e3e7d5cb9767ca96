package busserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
)

// place is where a server takes routes: host and port as it is to listen, and near,
// which is where this host's lagpollers are to go.
type place struct {
	host string
	port int
	near string
	// instead says that a neighbour has bus.cluster.listen, where the other hosts look.
	instead bool
}

// placeAt looks whether a server can listen on an address.
func placeAt(address string) (place, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return place{}, fmt.Errorf("bus.cluster.listen %q: want host:port", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return place{}, taken("bus.cluster.listen", address, err)
	}
	at := l.Addr().(*net.TCPAddr)
	if at.IP.IsUnspecified() {
		at.IP = net.IPv4(127, 0, 0, 1)
	}
	return place{host: host, port: at.Port, near: at.String()}, l.Close()
}

// choosePlace takes bus.cluster.listen, or a free port beside it if a neighbour that was told
// the same has that one; without one, a port where only this host's lagpollers come from. A
// neighbour's note does not say what it got: of two that each left it to the other nobody
// would listen where the other hosts look.
func choosePlace(ctx context.Context, cluster string, near func() ([]note, error)) (p place, err error) {
	err = settled(ctx, func() error {
		notes, err := near()
		if err != nil {
			return err
		}
		if cluster == "" {
			p, err = placeAt("127.0.0.1:0")
			return err
		}
		p, err = placeAt(cluster)
		if errors.Is(err, syscall.EADDRINUSE) && sharedBy(notes, cluster) {
			host, _, _ := net.SplitHostPort(cluster) // placeAt has done so, too
			p, err = placeAt(net.JoinHostPort(host, "0"))
			p.instead = true
		}
		return err
	})
	return p, err
}

// sharedBy reports whether one of the neighbours was told the same bus.cluster.listen.
func sharedBy(notes []note, cluster string) bool {
	return slices.ContainsFunc(notes, func(n note) bool { return n.Cluster == cluster })
}
