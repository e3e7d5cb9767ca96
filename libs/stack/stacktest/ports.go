package stacktest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are picked from here: below those of labs on free ports, and of outgoing
// connections.
const (
	lowestPort  = 10000
	highestPort = 14999
)

// reservation keeps other test processes away from ports picked for this one, also
// while the services are not listening. It holds one abstract Unix socket per port,
// which the kernel frees with the process.
type reservation struct {
	ports []int
	held  []net.Listener
}

func reservePorts(n int) (*reservation, error) {
	r := &reservation{}
	for tries := 0; len(r.ports) < n && tries < 1000; tries++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		held, err := net.Listen("unix", "@pgpilot-stacktest-port-"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = probe.Close()
		r.ports, r.held = append(r.ports, port), append(r.held, held)
	}
	if len(r.ports) < n {
		r.release()
		return nil, fmt.Errorf("found only %d of %d free ports from %d to %d: stop some servers", len(r.ports), n, lowestPort, highestPort)
	}
	return r, nil
}

func (r *reservation) address(i int) string { return "127.0.0.1:" + strconv.Itoa(r.ports[i]) }

func (r *reservation) release() {
	for _, l := range r.held {
		_ = l.Close()
	}
}
