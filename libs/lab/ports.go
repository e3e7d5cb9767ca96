package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// loopbackHosts are the addresses every member listens on.
func loopbackHosts() []string {
	hosts := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		hosts = append(hosts, "::1")
	}
	return hosts
}

// checkPort must be asked before a server starts: PostgreSQL is content when
// one of its addresses is taken and another is free, and would answer on half of them.
func checkPort(port int) error {
	for _, host := range loopbackHosts() {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %d is taken by another process: stop that process, or choose other ports with -port", port)
		}
		if err != nil {
			return fmt.Errorf("try port %d: %w", port, err)
		}
		_ = l.Close()
	}
	return nil
}

// awaitPort gives a taken port a moment. While a member is down, an outgoing connection may get
// the member's port as its own, even one that tries to reach the member: Linux then
// connects the socket to itself.
func awaitPort(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var taken error
	if err := until(ctx, pollEvery, func() (bool, error) {
		taken = checkPort(port)
		return taken == nil, nil
	}); err != nil {
		return taken
	}
	return nil
}

// portReservation keeps labs of other processes and goroutines away from free ports
// picked for this one, while its servers are not yet, or for the moment not, listening. It
// holds one abstract Unix socket per port, which the kernel frees with the process.
type portReservation []net.Listener

func (r portReservation) release() {
	for _, l := range r {
		_ = l.Close()
	}
}

// reservePorts picks n free ports. They lie below the range that outgoing connections
// take theirs from, so that only others who ask here could want the same ones.
func reservePorts(n int) (portReservation, []int, error) {
	const lowest = 15000
	highest := min(ephemeralStart(), 32000)
	if highest < lowest+1000 {
		highest = 32000
	}
	var reserved portReservation
	var ports []int
	for tries := 0; len(ports) < n && tries < 1000; tries++ {
		port := lowest + rand.IntN(highest-lowest)
		l, err := net.Listen("unix", "@pgpilot-lab-port-"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		if checkPort(port) != nil {
			_ = l.Close()
			continue
		}
		reserved, ports = append(reserved, l), append(ports, port)
	}
	if len(ports) < n {
		reserved.release()
		return nil, nil, fmt.Errorf("found only %d of %d free ports from %d to %d: stop some servers", len(ports), n, lowest, highest)
	}
	return reserved, ports, nil
}

// ReservePort picks a free port as a lab picks those of its servers, for something else that listens
// on this machine, and keeps labs and others who ask here away from it until release is called.
func ReservePort() (port int, release func(), err error) {
	reserved, ports, err := reservePorts(1)
	if err != nil {
		return 0, nil, err
	}
	return ports[0], reserved.release, nil
}

func ephemeralStart() int {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 32768
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\t")
	start, err := strconv.Atoi(first)
	if err != nil {
		return 32768
	}
	return start
}
