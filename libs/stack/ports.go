package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

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

// CheckAddress makes sure that every address host:port stands for can be listened
// on. The error says who has a taken port, as far as this user may know, and to stop
// it. Anything else that may be wrong with an address is left to the one who listens.
func CheckAddress(ctx context.Context, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return nil
	}
	hosts := []string{""}
	if host != "" && host != "*" {
		if hosts, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return nil
		}
	}
	var lc net.ListenConfig
	for _, h := range hosts {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(h, port))
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %s is taken by %s: stop it", port, holder(port))
		}
		if err == nil {
			_ = l.Close()
		}
	}
	return nil
}

// holder names the process that listens on a port.
func holder(port string) string {
	const unknown = "another program"
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return unknown
	}
	inode, ok := listenerInode(number)
	if !ok {
		return unknown
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return unknown
	}
	socket := fmt.Sprintf("socket:[%d]", inode)
	for _, proc := range all {
		targets, err := proc.FileDescriptorTargets()
		if err != nil {
			continue // another user's, or gone
		}
		for _, target := range targets {
			if target == socket {
				return fmt.Sprintf("%s (pid %d)", programName(proc), proc.PID)
			}
		}
	}
	return unknown
}

func listenerInode(port uint64) (uint64, bool) {
	const listening = 0x0a // TCP_LISTEN
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, false
	}
	for _, table := range []func() (procfs.NetTCP, error){fs.NetTCP, fs.NetTCP6} {
		sockets, err := table()
		if err != nil {
			continue // no IPv6
		}
		for _, socket := range sockets {
			if socket.St == listening && socket.LocalPort == port {
				return socket.Inode, true
			}
		}
	}
	return 0, false
}

func programName(proc procfs.Proc) string {
	name, err := proc.Comm()
	if name = strings.TrimSpace(name); err != nil || name == "" {
		return "a program"
	}
	return name
}
