package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack"
)

func (cmd command) up(ctx context.Context) error {
	local := cmd.config == ""
	if local {
		cmd.config = cmd.developmentFile()
	} else if _, err := os.Stat(cmd.config); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the configuration %s does not exist: name another file with make up CONFIG=file", cmd.config)
	}
	if running, err := stack.Open(cmd.dir); err == nil && running.ConfigPath() != cmd.config {
		return fmt.Errorf("pgpilot runs with the configuration %s, not %s: make down stops it", running.ConfigPath(), cmd.config)
	}
	if local {
		cmd.chooseLabPort()
		if err := cmd.writeDevelopment(); err != nil {
			return err
		}
	}
	cfg, err := config.Load(cmd.config)
	if err != nil {
		return err
	}
	if err := cmd.checkFree(ctx, cfg, local); err != nil {
		return err
	}
	// The replica that a promotion made the primary serves no reads as a replica.
	var promoted string
	if local {
		c, err := cmd.labUp(ctx)
		if err != nil {
			return err
		}
		promoted = c.Primary().Name
	}
	s, err := stack.Start(ctx, stack.Options{
		Dir: cmd.dir, BinDir: cmd.bin, ConfigPath: cmd.config, Routers: cmd.routers, Detach: true,
	})
	if err != nil {
		return err
	}
	if local {
		dsn, err := s.DSN(lab.User, lab.Password, lab.Database)
		if err != nil {
			return err
		}
		if err := s.WaitReplicas(ctx, dsn, promoted); err != nil {
			return err
		}
	}
	if err := printProcesses(ctx, cmd.out, s.Processes()); err != nil {
		return err
	}
	for _, p := range s.Processes() {
		if p.OldBuild() {
			cmd.printf("\nSome processes run an older build. To use the new one: make down up\n")
			break
		}
	}
	cmd.howTo(cfg, local)
	if local {
		return nil // WaitReplicas has seen them
	}
	return unreachable(ctx, s)
}

// unreachable lists the servers that pgpilot cannot use, one sentence each. The
// services stay up: they go on trying.
func unreachable(ctx context.Context, s *stack.Stack) error {
	servers, err := s.Servers(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, l := range servers {
		if !l.Healthy {
			failed = append(failed, fmt.Errorf("the server %s (%s) cannot be used: %s", l.Backend, l.Address, l.Error))
		}
	}
	if failed != nil {
		failed = append(failed, errors.New("pgpilot runs and goes on trying: repair these servers, or correct the configuration and run make down up"))
	}
	return errors.Join(failed...)
}

// checkFree looks at all ports before anything is started. Once there is a stack, its own
// start looks at the ports of what is not running.
func (cmd command) checkFree(ctx context.Context, cfg *config.Config, local bool) error {
	var failed []error
	if _, err := stack.Open(cmd.dir); errors.Is(err, stack.ErrNoStack) {
		failed = append(failed, stack.CheckAddresses(ctx, cfg, cmd.config))
	}
	if local {
		failed = append(failed, cmd.checkLabPorts(ctx))
	}
	return errors.Join(failed...)
}

// checkLabPorts looks at the ports of the local cluster's servers that do not run.
func (cmd command) checkLabPorts(ctx context.Context) error {
	const otherwise = "other ports with make up LAB_PORT=n (bin/stack -lab-port n); of those below 32768, such as 15432, Linux gives none to outgoing connections"
	var ports []int
	advice := "or give the local cluster " + otherwise
	c, err := lab.Open(cmd.labDir())
	switch {
	case errors.Is(err, lab.ErrNoCluster):
		for port := cmd.labPort; port <= cmd.labPort+replicas; port++ {
			ports = append(ports, port)
		}
	case err != nil:
		return nil //nolint:nilerr // its start will say what is wrong
	default:
		advice = "or remove the local cluster with make down and give the next one " + otherwise
		for _, m := range c.Members() {
			if _, running := m.Running(); !running && !m.IsFormer() {
				ports = append(ports, m.Port)
			}
		}
	}
	var failed []error
	for _, port := range ports {
		if err := stack.CheckAddress(ctx, net.JoinHostPort("localhost", strconv.Itoa(port))); err != nil {
			failed = append(failed, fmt.Errorf("%w, %s", err, advice))
		}
	}
	return errors.Join(failed...)
}

// labUp starts the local cluster. It fails if it has two primaries, since pgpilot
// then writes to neither.
func (cmd command) labUp(ctx context.Context) (*lab.Cluster, error) {
	c, err := lab.Start(ctx, lab.Options{Dir: cmd.labDir(), Replicas: replicas, BasePort: cmd.labPort, Detach: true})
	if err != nil {
		return nil, err
	}
	note, second := c.FormerNote()
	if second {
		return nil, fmt.Errorf("the local cluster: %s", note)
	}
	if note != "" {
		cmd.printf("the local cluster: %s\n\n", note)
	}
	return c, nil
}

func (cmd command) howTo(cfg *config.Config, local bool) {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err == nil {
		if host == "" || host == "*" || net.ParseIP(host).IsUnspecified() {
			host = "localhost"
		}
		database, user, password := "DATABASE", cfg.Users[0].Name, ""
		if local {
			database, password = lab.Database, "   (password "+lab.Password+")"
		}
		cmd.printf("\nconnect   psql \"host=%s port=%s dbname=%s user=%s\"%s\n", host, port, database, user, password)
	}
	if a := cfg.Observability.MetricsAddr; a != "" {
		cmd.printf("metrics   http://%s/metrics\n", a)
	}
	if a := cfg.Bus.Listen; a != "" {
		cmd.printf("bus       nats sub -s nats://%s 'pgpilot.lag.>'\n", a)
	}
	cmd.printf("logs      %s\n", relative(filepath.Join(cmd.dir, "logs")))
	if local {
		cmd.printf("servers   %s\n", relative(cmd.labDir()))
		cmd.printf("see it    make demo\n")
	}
	cmd.printf("stop it   make down\n")
}

// relative shortens a path below the working folder.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(short) {
		return short
	}
	return path
}
