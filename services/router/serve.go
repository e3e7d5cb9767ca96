package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/engine"
	"github.com/pgpilot/pgpilot/services/router/internal/intake"
	"github.com/pgpilot/pgpilot/services/router/internal/news"
)

// serve runs the router. Shutdown, in this order: no new sessions; sessions end;
// the loop; the links to listeners; the classifier client; the bus.
func serve(ctx context.Context, env *service.Env) error {
	secret, err := news.TemplateKey(env.Dir, env.Config.Bus.SecretFile)
	if err != nil {
		return err
	}
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	paper, err := news.Open(around, env)
	if err != nil {
		return err
	}
	defer paper.Close()

	var loop *engine.Engine
	judge := verdict.NewClient(verdict.Options{
		Dir: env.Dir, Log: env.Log, Timeout: env.Config.Classify.Timeout.D(), MaxText: env.Config.Classify.MaxText,
		Late: func(database string, key sqltoken.Key, v verdict.Verdict) { loop.Verdict(database, key, v) },
	})
	defer judge.Close()

	var links *intake.Server
	loop, err = engine.New(engine.Options{
		Config: env.Config, Log: env.Log, Secret: secret,
		Judge: judge.Ask, Follow: judge.Follow, Want: paper.Want,
		Ended:    func(session string) { links.Ended(session) },
		Began:    func(session string, from *intake.Link) { links.Began(session, from) },
		Moved:    func(session string, to *intake.Link) { links.Moved(session, to) },
		Stopping: func() { links.Stopping() },
		Way:      func() *intake.Link { return links.Way() },
		Metrics:  engine.NewMetrics(env.Metrics),
		Host:     paper.Host(),
	})
	if err != nil {
		return err
	}
	links = intake.NewServer(env.Claim.ID(), loop, env.Log)
	defer links.Close()

	running := make(chan error, 1)
	go func() { running <- loop.Run() }()

	if err := paper.Deliver(loop); err != nil {
		loop.Stop(0)
		return errors.Join(err, <-running)
	}
	paper.AwaitVerdicts(ctx, news.WarmUpTime)
	paper.AwaitTopology(ctx, 2*env.Config.Health.Timeout.D())
	socket, err := env.Claim.Listen()
	if err != nil {
		loop.Stop(0)
		return errors.Join(err, <-running)
	}
	if running, err := env.Dir.List(rundir.Router); err == nil { // otherwise watchRouters says so
		share(env, loop, running) // before the first session comes
	}
	// Listeners may connect until the end: one that has been restarted takes the sessions
	// that are left, and finds those that a cancel request is for.
	accepting, stopAccepting := context.WithCancel(around)
	defer stopAccepting()
	serving := make(chan error, 1)
	go func() { serving <- links.Serve(accepting, socket) }()
	var drain atomic.Int64 // drain.timeout
	drain.Store(int64(env.Config.Drain.Timeout.D()))
	wg.Go(func() { watchRouters(around, env, loop) })
	wg.Go(func() {
		for {
			select {
			case <-around.Done():
				return
			case c := <-env.Reloads:
				loop.Reload(c)
				drain.Store(int64(c.Drain.Timeout.D()))
				judge.SetTimeout(c.Classify.Timeout.D())
				judge.SetMaxText(c.Classify.MaxText)
			}
		}
	})
	awaitListener(ctx, env, links)
	env.Health.Ready()

	select {
	case <-ctx.Done():
		loop.Stop(time.Duration(drain.Load()))
		err = <-running
	case err = <-running:
	case err := <-serving:
		loop.Stop(0)
		return errors.Join(err, <-running)
	}
	stopAccepting()
	return errors.Join(err, <-serving)
}

// meetTime is how long a router that starts waits for a listener that runs.
const meetTime = time.Second

// awaitListener waits until a listener knows the router, if there is one: whoever stops
// another router once this one is ready would otherwise leave its sessions without any for
// a moment.
func awaitListener(ctx context.Context, env *service.Env, links *intake.Server) {
	switch running, err := env.Dir.List(rundir.Listener); {
	case err != nil:
		env.Log.Warn("cannot see which listeners run", obs.KeyError, err)
		return
	case len(running) == 0:
		return
	}
	late := time.NewTimer(meetTime)
	defer late.Stop()
	select {
	case <-links.Met():
	case <-late.C:
	case <-ctx.Done():
	}
}

// watchRouters keeps this router's share of the pools right.
func watchRouters(ctx context.Context, env *service.Env, loop *engine.Engine) {
	env.Dir.Watch(ctx, rundir.Router, env.Log, func(running []rundir.Instance) { share(env, loop, running) })
}

// share tells the loop which of the routers that run this one is.
func share(env *service.Env, loop *engine.Engine, running []rundir.Instance) {
	me := slices.IndexFunc(running, func(i rundir.Instance) bool { return i.ID == env.Claim.ID() })
	if me >= 0 {
		loop.Share(me, len(running))
	}
}
