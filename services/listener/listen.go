package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/services/listener/internal/sibling"
	"github.com/pgpilot/pgpilot/services/listener/internal/sockets"
)

// retryListen is the time between two attempts to listen while another listener holds the addresses.
const retryListen = 20 * time.Millisecond

// addresses are those of the configuration, as listeners tell each other.
func addresses(cfg *config.Config) handoff.Share {
	return handoff.Share{Listen: cfg.Listen, ListenUnix: cfg.ListenUnix, Metrics: cfg.Observability.MetricsAddr}
}

// listen opens the sockets for clients and the one for metrics, if there is one: those of
// a listener that runs already, or new ones. Another listener may hold the addresses and not
// share them, because it has only just started or is about to end: listen waits for it, as
// long as an end may take.
func listen(ctx context.Context, env *service.Env) (open *sockets.Set, page net.Listener, err error) {
	given := time.NewTimer(env.Config.Drain.Timeout.D() + lingerTimeout)
	defer given.Stop()
	for said := false; ; said = true {
		open, page, err = listenOnce(ctx, env)
		if !errors.Is(err, sockets.ErrTaken) {
			return open, page, err
		}
		running, lookErr := env.Dir.Running(rundir.Listener)
		if lookErr != nil {
			return nil, nil, errors.Join(err, lookErr)
		}
		others := slices.DeleteFunc(running, func(id string) bool { return id == env.Claim.ID() })
		if len(others) == 0 {
			return nil, nil, err
		}
		if !said {
			env.Log.Warn("waiting for another listener to share its sockets or to close them", obs.KeyPeer, others, obs.KeyError, err)
		}
		select {
		case <-time.After(retryListen):
		case <-given.C:
			return nil, nil, err
		case <-ctx.Done():
			return nil, nil, err
		}
	}
}

func listenOnce(ctx context.Context, env *service.Env) (*sockets.Set, net.Listener, error) {
	cfg := env.Config
	if kinds, fds := sibling.Ask(ctx, env.Dir, env.Claim.ID(), addresses(cfg), env.Log); len(kinds) > 0 {
		return sockets.Adopt(kinds, fds, cfg.TCP)
	}
	page, err := listenRelay(cfg.Observability.MetricsAddr)
	if err != nil {
		return nil, nil, err
	}
	open, err := sockets.Open(ctx, cfg.Listen, cfg.ListenUnix, cfg.TCP)
	if err != nil && page != nil {
		err = errors.Join(err, page.Close())
	}
	return open, page, err
}

// listenRelay opens the address of the relay, if there is one.
func listenRelay(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, sockets.Taken("listen on %s for metrics: the port is taken; stop the program that has it or change observability.metrics_addr", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s for metrics: %w", address, err)
	}
	return l, nil
}
