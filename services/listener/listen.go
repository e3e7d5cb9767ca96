package main

import (
	"context"
	"errors"
	"slices"
	"time"

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

// listenTime bounds the wait for another listener that has just started or is about to end.
const listenTime = 5 * time.Second

// listen opens the sockets for clients and the one for metrics: those of a listener that runs
// already, or new ones. Another listener may hold the addresses and not share them, because it has
// only just started or is about to end: listen waits for it.
func listen(ctx context.Context, env *service.Env) (*sockets.Set, *page, error) {
	p := &page{address: env.Config.Observability.MetricsAddr, log: env.Log}
	given := time.NewTimer(listenTime)
	defer given.Stop()
	for said := false; ; said = true {
		open, err := listenOnce(ctx, env, p)
		if err == nil {
			if err = p.open(); err == nil {
				return open, p, nil
			}
			return nil, nil, errors.Join(err, open.Close())
		}
		if !errors.Is(err, sockets.ErrTaken) {
			return nil, nil, err
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
			return nil, nil, ctx.Err()
		}
	}
}

func listenOnce(ctx context.Context, env *service.Env, p *page) (*sockets.Set, error) {
	cfg := env.Config
	kinds, fds := sibling.Ask(ctx, env.Dir, env.Claim.ID(), addresses(cfg), env.Log)
	if len(kinds) == 0 {
		return sockets.Open(ctx, cfg.Listen, cfg.ListenUnix, cfg.TCP)
	}
	open, shared, err := sockets.Adopt(kinds, fds, cfg.TCP)
	if err == nil && shared != nil {
		p.set(shared)
	}
	return open, err
}
