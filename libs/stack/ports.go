package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// checkPorts makes sure that the addresses of services to be started are free, so
// that a taken one is a sentence at once and not a line in a log.
func (s *Stack) checkPorts(ctx context.Context) error {
	running := map[string]bool{} // services of the stack, by whether an instance runs
	for _, p := range s.Processes() {
		running[p.service] = running[p.service] || p.Running()
	}
	return checkAddresses(ctx, s.config, s.st.Config, func(service string) bool {
		up, wanted := running[service]
		return wanted && !up
	})
}

// CheckAddresses makes sure that every address the services would listen on is free.
// path is the file of the configuration, for the error.
func CheckAddresses(ctx context.Context, cfg *config.Config, path string) error {
	return checkAddresses(ctx, cfg, path, func(string) bool { return true })
}

func checkAddresses(ctx context.Context, cfg *config.Config, path string, of func(service string) bool) error {
	var failed []error
	for _, a := range []struct{ service, key, address string }{
		{rundir.Listener, "listen", cfg.Listen},
		{rundir.Listener, "observability.metrics_addr", cfg.Observability.MetricsAddr},
		{rundir.Lagpoller, "bus.listen", cfg.Bus.Listen},
	} {
		if a.address == "" || !of(a.service) {
			continue
		}
		if err := CheckAddress(ctx, a.address); err != nil {
			failed = append(failed, fmt.Errorf("%w, or change %s in %s", err, a.key, path))
		}
	}
	return errors.Join(failed...)
}

// closingTime is how long a port may be taken by no listener: an outgoing or a closing
// connection may have got it as its own, if it lies in the range of these.
const closingTime = 3 * time.Second

// CheckAddress makes sure that every address host:port stands for can be listened
// on. It gives a connection that has the port a moment to end. The error says who has
// a taken port, as far as this user may know, and to stop it. Anything else that may be
// wrong with an address is left to the one who listens.
func CheckAddress(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, closingTime)
	defer cancel()
	for _, one := range addresses(ctx, address) {
		_, port, err := net.SplitHostPort(one)
		if err != nil {
			continue
		}
		var listens bool
		err = until(ctx, func() (bool, error) {
			if !taken(ctx, one) {
				return true, nil
			}
			if listens = isListenedOn(port); listens {
				return false, fmt.Errorf("port %s is taken by %s: stop it", port, holder(port))
			}
			return false, nil
		})
		if err != nil && !listens {
			return fmt.Errorf("port %s is taken by a connection of another program, which ends by itself: try again in a minute", port)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// taken says whether somebody has the port. Other troubles are left to the one who listens.
func taken(ctx context.Context, address string) bool {
	var lc net.ListenConfig
	l, err := lc.Listen(context.WithoutCancel(ctx), "tcp", address)
	if err == nil {
		_ = l.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

func isListenedOn(port string) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return false
	}
	_, found := listeningSocket(number)
	return found
}

// addresses are those that the host has: localhost is 127.0.0.1 and ::1.
func addresses(ctx context.Context, address string) []string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return nil
	}
	if host == "" || host == "*" {
		return []string{":" + port}
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil
	}
	for i, h := range hosts {
		hosts[i] = net.JoinHostPort(h, port)
	}
	return hosts
}

// holder names the process that listens on a port.
func holder(port string) string {
	const unknown = "another program"
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return unknown
	}
	inode, found := listeningSocket(number)
	if !found {
		return unknown
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return unknown
	}
	for _, proc := range all {
		targets, err := proc.FileDescriptorTargets()
		if err != nil {
			continue // another user's, or gone
		}
		if slices.Contains(targets, "socket:["+inode+"]") {
			return fmt.Sprintf("%s (pid %d)", programName(proc), proc.PID)
		}
	}
	return unknown
}

// listeningSocket finds the inode of the socket that listens on a port, on any
// address.
func listeningSocket(port uint64) (inode string, found bool) {
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(path)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(table)) {
			// The columns of proc(5): local address 1, state 3, inode 9.
			const listening = "0A"
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != listening {
				continue
			}
			_, digits, _ := strings.Cut(fields[1], ":")
			if local, err := strconv.ParseUint(digits, 16, 16); err == nil && local == port {
				return fields[9], true
			}
		}
	}
	return "", false
}

func programName(proc procfs.Proc) string {
	name, err := proc.Comm()
	if name = strings.TrimSpace(name); err != nil || name == "" {
		return "a program"
	}
	return name
}
