// Command listener is where clients connect: it logs them in and hands their
// sockets to the routers.
package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/scram"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/services/listener/internal/encryption"
	"github.com/pgpilot/pgpilot/services/listener/internal/front"
	"github.com/pgpilot/pgpilot/services/listener/internal/ledger"
	"github.com/pgpilot/pgpilot/services/listener/internal/login"
	"github.com/pgpilot/pgpilot/services/listener/internal/relay"
	"github.com/pgpilot/pgpilot/services/listener/internal/routers"
	"github.com/pgpilot/pgpilot/services/listener/internal/sibling"
)

func main() {
	os.Exit(service.Main(service.Service{Name: rundir.Listener, Check: check, Serve: serve}))
}

// saltSecret names the secret in the run directory that the users' salts come from.
const saltSecret = "scram.key"

// lingerTimeout is how long sessions that are parked may hold up the end.
const lingerTimeout = 3 * time.Second

// serve runs the listener until ctx ends. Order of the end: the clients' sockets
// are closed, logins in progress and sessions over TLS finish, parked sessions find
// another listener or a router, and only then the connections to the routers and the relay
// are closed.
func serve(ctx context.Context, env *service.Env) error {
	cfg := env.Config
	secret, err := env.Dir.Secret(saltSecret, scram.SecretSize)
	if err != nil {
		return err
	}
	policy, err := policyOf(cfg, secret)
	if err != nil {
		return err
	}
	clients := ledger.New(env.Claim.ID(), cfg.Limits.MaxClients, env.Metrics)
	gate := login.NewGate(clients, policy)
	fleet := routers.New(env.Dir, env.Claim.ID(), clients, env.Metrics, env.Log)
	way := front.New(gate, fleet, clients, env.Metrics, env.Log)

	open, page, err := listen(ctx, env)
	if err != nil {
		return err
	}
	siblings, err := env.Claim.Listen()
	if err != nil {
		return errors.Join(err, open.Close(), page.close())
	}

	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	accepting, stopAccepting := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopAround()
	defer stopAccepting(nil)
	wg.Go(func() { stopAccepting(fleet.Run(around)) })
	env.Health.Set(partRouters, errNoRouter) // not ready before the first look
	wg.Go(func() { watchFleet(around, fleet, env.Health) })
	wg.Go(func() { reload(around, env, secret, clients, gate) })
	handler := relay.New(env.Dir, relay.Needed(cfg.Bus.URL), cfg.Observability.Pprof, env.Log).Handler()
	wg.Go(func() {
		if err := page.serve(around, handler); err != nil {
			env.Log.Error("metrics are not relayed any more", obs.KeyError, err)
		}
	})
	host := &sibling.Host{Has: addresses(cfg), Parked: fleet, Log: env.Log, Share: func() ([]string, []int, error) {
		if ctx.Err() != nil {
			return nil, nil, nil //nolint:nilerr // they are being closed
		}
		return open.Share(page.get())
	}}
	wg.Go(func() {
		if err := host.Serve(around, siblings); err != nil {
			env.Log.Error("other listeners are not answered any more", obs.KeyError, err)
		}
	})
	env.Log.Info("accepting clients", obs.KeyAddress, open.Addresses())
	env.Health.Ready()

	refuse := context.AfterFunc(ctx, fleet.Refuse)
	defer refuse()
	err = way.Run(accepting, open.Listeners, open.Close)
	lingering, stopLingering := context.WithTimeout(around, lingerTimeout)
	defer stopLingering()
	fleet.Empty(lingering)
	if ctx.Err() == nil {
		err = errors.Join(context.Cause(accepting), err)
	}
	return err
}

// policyOf derives what the gate goes by from a configuration.
func policyOf(cfg *config.Config, secret []byte) (login.Policy, error) {
	users := make([]scram.User, 0, len(cfg.Users))
	for i := range cfg.Users {
		password, err := cfg.Users[i].Secret()
		if err != nil {
			return login.Policy{}, err
		}
		users = append(users, scram.User{Name: cfg.Users[i].Name, Password: password})
	}
	book, err := scram.NewBook(secret, users)
	if err != nil {
		return login.Policy{}, err
	}
	secure, err := encryption.New(cfg.TLS)
	if err != nil {
		return login.Policy{}, err
	}
	return login.Policy{Book: book, TLS: secure, Timeout: cfg.Limits.LoginTimeout.D()}, nil
}

// check says whether the listener can take a configuration.
func check(cfg *config.Config) error {
	for i := range cfg.Users {
		if _, err := cfg.Users[i].Secret(); err != nil {
			return err
		}
	}
	_, err := encryption.New(cfg.TLS)
	return err
}

// reload takes new configurations until ctx ends.
func reload(ctx context.Context, env *service.Env, secret []byte, clients *ledger.Ledger, gate *login.Gate) {
	for {
		select {
		case <-ctx.Done():
			return
		case cfg := <-env.Reloads:
			policy, err := policyOf(cfg, secret)
			if err != nil { // what check has read a moment before is gone
				env.Log.Error("users and certificates stay as they were", obs.KeyError, err)
				continue
			}
			gate.SetPolicy(policy)
			clients.SetMax(cfg.Limits.MaxClients)
		}
	}
}

// partRouters is the health's part that says whether there is a router.
const partRouters = "routers"

var errNoRouter = errors.New("no router is running")

// watchFleet keeps the health up to date: without a router nobody can be served.
func watchFleet(ctx context.Context, fleet *routers.Fleet, health *obs.Health) {
	for {
		changed := fleet.Changed()
		var err error
		if fleet.Len() == 0 {
			err = errNoRouter
		}
		health.Set(partRouters, err)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
