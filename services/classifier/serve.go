package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/service"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/catalog"
	"github.com/pgpilot/pgpilot/services/classifier/internal/clerk"
	"github.com/pgpilot/pgpilot/services/classifier/internal/epoch"
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
	var c *clerk.Clerk // is there before the first catalog is asked for
	shelf, err := openLibrary(env, workers, func(database string) { news.Flush(database, c.Flush(database)) })
	if err != nil {
		return err
	}
	defer shelf.Close()
	c, err = clerk.New(clerk.Options{
		Parse:      workers.Parse,
		Judge:      opinion,
		Catalogs:   shelf,
		Quarantine: ward,
		Numbers:    epoch.New(env.Dir.Join(epoch.FileName), time.Now, env.Log),
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
	lead := catalog.NewLead(env.Config.Health.StaleAfter.D())
	told := func(t bus.Topology) {
		if primary := lead.Heard(&t, time.Now()); primary != "" {
			shelf.Lead(primary)
		}
	}
	if err := join(around, env, attentive{c, shelf}, told, news, &wg); err != nil {
		return err
	}
	wg.Go(func() { follow(around, env, c, s, shelf, lead) })
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
	limits := parse.DefaultLimits()
	limits.CPU = env.Config.Classify.ParserTime.D()
	limits.Wall = max(limits.Wall, 5*limits.CPU)
	limits.Memory = uint64(env.Config.Classify.ParserMemory)
	limits.Tree = env.Config.Classify.ParserTree
	workers, err := parse.New(parse.Options{
		Workers: max(2, runtime.GOMAXPROCS(0)),
		Limits:  limits,
		Metrics: m,
		Log:     env.Log,
	})
	if err != nil {
		return nil, err
	}
	var o judge.Opinion
	err = workers.Parse("SELECT 1", false, func(p parse.Parsed) { o = opinion(judge.Static{}, p) })
	if err == nil && o.Kind != verdict.Read {
		err = fmt.Errorf("the parser does not work: SELECT 1 is judged a write because of %s", o.Reason)
	}
	if err != nil {
		workers.Close()
		return nil, err
	}
	return workers, nil
}

func opinion(c judge.Catalog, p parse.Parsed) judge.Opinion {
	return judge.Tree(p.Text, p.Tree, p.Fingerprint, c)
}

// openLibrary gives a library that reads catalogs with the monitor's login.
func openLibrary(env *service.Env, workers *parse.Pool, changed func(database string)) (*catalog.Library, error) {
	m, err := catalog.NewMetrics(env.Metrics)
	if err != nil {
		return nil, err
	}
	login, err := monitorLogin(env.Config)
	if err != nil {
		return nil, err
	}
	return catalog.New(catalog.Options{
		Login:   login,
		Reads:   env.Config.Routing.ReadFunctions,
		Wait:    catalogWait(env.Config),
		Most:    catalog.DefaultMost,
		Changed: changed,

		Unconfirmed: catalog.DefaultUnconfirmed,
		Absent:      catalog.DefaultAbsent,
		Parse: func(text string) (tree *pgquery.ParseResult, err error) {
			err = workers.Parse(text, false, func(p parse.Parsed) { tree = p.Tree })
			if errors.Is(err, parse.ErrBusy) || errors.Is(err, parse.ErrLost) || errors.Is(err, parse.ErrClosed) {
				err = fmt.Errorf("%w: %w", catalog.ErrNotNow, err)
			}
			return tree, err
		},
		Metrics: m,
		Log:     env.Log,
	}), nil
}

// check says whether the classifier can take a configuration.
func check(cfg *config.Config) error {
	if _, err := cfg.Monitor.Secret(); err != nil {
		return err
	}
	_, err := monitorLogin(cfg)
	return err
}

func monitorLogin(cfg *config.Config) (catalog.Login, error) {
	l := catalog.Login{Monitor: cfg.Monitor}
	for _, b := range cfg.Backends() {
		s, err := dial.Of(b, cfg.ServerTLS, cfg.TCP)
		if err != nil {
			return catalog.Login{}, err
		}
		l.Servers = append(l.Servers, catalog.Server{Name: b.Name, Server: s})
	}
	return l, nil
}

// catalogWait leaves half of classify.timeout to the rest of a question.
func catalogWait(cfg *config.Config) time.Duration { return cfg.Classify.Timeout.D() / 2 }

// attentive is a clerk who has a catalog looked at when a sibling saw it change.
type attentive struct {
	*clerk.Clerk
	shelf *catalog.Library
}

// Flushed implements herald.Clerk.
func (a attentive) Flushed(database string, generation uint64) bool {
	if !a.Clerk.Flushed(database, generation) {
		return false
	}
	a.shelf.Look(database)
	return true
}

// join connects to the bus, which need not be there: verdicts are given without
// it.
func join(ctx context.Context, env *service.Env, c herald.Clerk, told func(bus.Topology), news *herald.Herald, wg *sync.WaitGroup) error {
	m, err := bus.NewMetrics(env.Metrics)
	if err != nil {
		return err
	}
	name := rundir.Classifier + "." + env.Claim.ID()
	nc, err := bus.Connect(ctx, env.Dir, bus.Options{
		Name: name, Log: env.Log, Metrics: m, Bus: env.Config.Bus,
	})
	if err != nil {
		return err
	}
	if _, err := bus.Register(nc, rundir.Classifier, env.Claim.ID(), env.Version); err != nil {
		env.Log.Warn("not listed on the bus", obs.KeyError, err)
	}
	self, err := bus.Identity(env.Dir, env.Claim.ID())
	if err != nil {
		return err
	}
	if _, err := bus.Subscribe(nc, bus.SubjectTopology, m, told); err != nil {
		return err
	}
	desk := &herald.Desk{
		Clerk: c, Instance: self, Build: env.Version,
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
func follow(ctx context.Context, env *service.Env, c *clerk.Clerk, s *server.Server, shelf *catalog.Library, lead *catalog.Lead) {
	now := env.Config
	for {
		select {
		case <-ctx.Done():
			return
		case cfg := <-env.Reloads:
			c.Resize(cfg.Classify.CacheSize)
			s.SetMaxText(cfg.Classify.MaxText)
			lead.Settle(cfg.Health.StaleAfter.D())
			if cfg.Monitor != now.Monitor || !slices.Equal(cfg.Backends(), now.Backends()) || cfg.Classify.Timeout != now.Classify.Timeout ||
				!slices.Equal(cfg.Routing.ReadFunctions, now.Routing.ReadFunctions) {
				login, err := monitorLogin(cfg)
				if err != nil {
					env.Log.Error("catalogs are read as before", obs.KeyError, err)
					continue
				}
				shelf.Set(login, cfg.Routing.ReadFunctions, catalogWait(cfg))
			}
			now = cfg
		}
	}
}
