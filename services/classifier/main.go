// The classifier says of SQL statements whether they only read. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/clerk"
	"github.com/pgpilot/pgpilot/services/classifier/internal/herald"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
	"github.com/pgpilot/pgpilot/services/classifier/internal/server"
)

func main() { os.Exit(service.Main(rundir.Classifier, serve)) }

// serve starts the parts from the inside out and ends them in reverse: first no
// more questions, then no more news.
func serve(ctx context.Context, env *service.Env) error {
	if o := judge.Judge("SELECT 1"); o.Kind != verdict.Read {
		return fmt.Errorf("the parser does not work: SELECT 1 is judged a write because of %s", o.Reason)
	}
	news, err := herald.New(env.Metrics, env.Log)
	if err != nil {
		return err
	}
	books, err := clerk.NewMetrics(env.Metrics)
	if err != nil {
		return err
	}
	c, err := clerk.New(clerk.Options{
		Judge:    judge.Judge,
		Remember: env.Config.Classify.CacheSize,
		AtOnce:   runtime.GOMAXPROCS(0),
		Announce: news.Announce,
		Metrics:  books,
		Log:      env.Log,
	})
	if err != nil {
		return err
	}
	s, err := server.New(c, env.Config.Classify.MaxText, env.Metrics, env.Log)
	if err != nil {
		return err
	}
	l, err := env.Claim.Listen()
	if err != nil {
		return err
	}

	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	if err := publish(around, env, news, &wg); err != nil {
		return errors.Join(err, l.Close())
	}
	wg.Go(func() { follow(around, env.Reloads, c, s) })
	env.Health.Ready()
	return s.Serve(ctx, l)
}

// publish connects to the bus, which need not be there: verdicts are given
// without it.
func publish(ctx context.Context, env *service.Env, news *herald.Herald, wg *sync.WaitGroup) error {
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
	wg.Go(func() { news.Run(ctx, nc) })
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
