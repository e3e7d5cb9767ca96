package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/clerk"
	"github.com/pgpilot/pgpilot/services/classifier/internal/herald"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse"
	"github.com/pgpilot/pgpilot/services/classifier/internal/quarantine"
	"github.com/pgpilot/pgpilot/services/classifier/internal/server"
)

// serve starts the parts from the inside out and ends them in reverse: first no
// more questions, then no more news, then no more parsing.
func serve(ctx context.Context, env *service.Env) error {
	workers, err := startWorkers(env)
	if err != nil {
		return err
	}
	defer workers.Close()
	news, err := herald.New(env.Metrics, env.Log)
	if err != nil {
		return err
	}
	ward, err := quarantine.Open(quarantine.Options{
		Path:    env.Dir.Join(quarantine.FileName),
		Most:    quarantine.DefaultMost,
		Keep:    quarantine.DefaultKeep,
		Now:     time.Now,
		Metrics: env.Metrics,
		Log:     env.Log,
	})
	if err != nil {
		return err
	}
	books, err := clerk.NewMetrics(env.Metrics)
	if err != nil {
		return err
	}
	c, err := clerk.New(clerk.Options{
		Parse:      workers.Parse,
		Judge:      opinion,
		Quarantine: ward,
		Remember:   env.Config.Classify.CacheSize,
		Announce:   news.Announce,
		Metrics:    books,
		Log:        env.Log,
	})
	if err != nil {
		return err
	}
	s, err := server.New(c, env.Config.Classify.MaxText, env.Metrics, env.Log)
	if err != nil {
		return err
	}

	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	if err := join(around, env, c, news, &wg); err != nil {
		return err
	}
	wg.Go(func() { follow(around, env.Reloads, c, s) })
	wg.Go(func() {
		ward.Watch(around, func(database string) { news.Flush(database, c.Flush(database)) })
	})
	l, err := env.Claim.Listen()
	if err != nil {
		return err
	}
	env.Health.Ready()
	return s.Serve(ctx, l)
}

// startWorkers gives a pool that has been seen to work.
func startWorkers(env *service.Env) (*parse.Pool, error) {
	m, err := parse.NewMetrics(env.Metrics)
	if err != nil {
		return nil, err
	}
	workers, err := parse.New(parse.Options{
		Workers: max(2, runtime.GOMAXPROCS(0)),
		Limits:  parse.DefaultLimits(),
		Metrics: m,
		Log:     env.Log,
	})
	if err != nil {
		return nil, err
	}
	var o judge.Opinion
	err = workers.Parse("SELECT 1", false, func(p parse.Parsed) { o = opinion("", p) })
	if err == nil && o.Kind != verdict.Read {
		err = fmt.Errorf("the parser does not work: SELECT 1 is judged a write because of %s", o.Reason)
	}
	if err != nil {
		workers.Close()
		return nil, err
	}
	return workers, nil
}

// opinion judges without knowledge of the database.
func opinion(_ string, p parse.Parsed) judge.Opinion {
	return judge.Tree(p.Tree, p.Fingerprint, judge.Static{})
}

// join connects to the bus, which need not be there: verdicts are given without
// it.
func join(ctx context.Context, env *service.Env, c *clerk.Clerk, news *herald.Herald, wg *sync.WaitGroup) error {
	m, err := bus.NewMetrics(env.Metrics)
	if err != nil {
		return err
	}
	name := rundir.Classifier + "." + env.Claim.ID()
	nc, err := bus.Connect(ctx, env.Dir, bus.Options{Name: name, Log: env.Log, Metrics: m})
	if err != nil {
		return err
	}
	if _, err := bus.Register(nc, rundir.Classifier, env.Claim.ID(), env.Version); err != nil {
		env.Log.Warn("not listed on the bus", obs.KeyError, err)
	}
	desk := &herald.Desk{
		Clerk: c, Instance: env.Claim.ID(), Build: env.Version,
		Metrics: m, Log: env.Log,
	}
	wg.Go(func() { news.Run(ctx, nc) })
	wg.Go(func() {
		if err := desk.Run(ctx, nc); err != nil {
			env.Log.Warn("verdicts are not shared with those who start", obs.KeyError, err)
		}
	})
	return nil
}

// follow applies what can change while running.
func follow(ctx context.Context, reloads <-chan *config.Config, c *clerk.Clerk, s *server.Server) {
	for {
		select {
		case <-ctx.Done():
			return
		case cfg := <-reloads:
			c.Resize(cfg.Classify.CacheSize)
			s.SetMaxText(cfg.Classify.MaxText)
		}
	}
}
