package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// Exit codes. A process that ended with exitUsage ends the same way when it is
// started again unchanged. It is EX_CONFIG of sysexits.h(3head): 2 is also how a Go
// program ends that panics, and that one is to be started again.
const (
	exitClean = 0
	exitError = 1
	exitUsage = 78
)

var errStopping = errors.New("shutting down")

// Service is what is to be run.
type Service struct {
	// Name of the service, such as rundir.Router.
	Name string
	// Check says whether the service can take a new configuration: it reads the passwords,
	// certificates and keys that this service needs of it, and changes nothing. One with
	// which it fails is refused. nil: the service reads none.
	Check func(*config.Config) error
	// Serve does the service's work. Its context ends at SIGTERM or SIGINT; it then
	// finishes what it must and returns nil or the context's error.
	Serve func(ctx context.Context, env *Env) error
}

// Main runs a service until it is done or the process is told to stop, and gives
// the exit code: 0 after a clean end, 1 after a failure, 78 when the flags or the
// configuration are at fault.
func Main(s Service) int {
	return run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, s)
}

// run is Main with its surroundings passed in; the end of ctx stands for SIGTERM.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, s Service) int {
	// Before all else: it would end the process. What was sent meanwhile is acted on once
	// there is something to reload.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	name := s.Name
	o, err := parseFlags(name, args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitClean
	case err != nil:
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, name, Version())
		return exitClean
	}
	if o.config == "" {
		if o.config, err = config.Find(); err != nil {
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
	}
	if o.check != "" {
		if err := check(ctx, config.RunDir(o.config), name, o.id, o.check); err != nil {
			fmt.Fprintln(stderr, err)
			return exitError
		}
		return exitClean
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	log := obs.NewLogger(stderr, cfg.Observability.LogFormat, o.level).With(obs.KeyService, name)
	if err := start(ctx, o, cfg, log, s, hangups); err != nil {
		log.Error("service failed", obs.KeyError, err)
		return exitError
	}
	return exitClean
}

// start opens what the service needs, runs it, and closes everything in reverse.
func start(ctx context.Context, o options, cfg *config.Config, log *slog.Logger, s Service, hangups <-chan os.Signal) (err error) {
	ends := make(chan os.Signal, 4)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(ends)
	dir, err := rundir.Open(cfg.RunDir)
	if err != nil {
		return err
	}
	claim, err := dir.Claim(s.Name, o.id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	log = log.With(obs.KeyInstance, claim.ID())
	claim.LogTo(log)

	socket, err := claim.ListenHTTP()
	if err != nil {
		return err
	}
	var public net.Listener // metrics and health, for everybody
	if o.http != "" {
		if public, err = net.Listen("tcp", o.http); err != nil {
			return errors.Join(fmt.Errorf("serve -http: %w", err), socket.Close())
		}
	}
	env := &Env{
		Config:  cfg,
		Log:     log,
		Dir:     dir,
		Claim:   claim,
		Metrics: obs.NewRegistry(Version()),
		Health:  obs.NewHealth(),
		Version: Version(),
	}
	reload := newReloader(o.config, cfg, s.Check, env.Metrics, log)
	env.Reloads = reload.out
	env.Health.Note("configuration", reload.refusal)

	// Two contexts: serve's ends first, and only when it has returned do the
	// goroutines around it.
	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	serving, stopServing := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopAround()
	defer stopServing(nil)
	wg.Go(func() {
		handler := http.NewServeMux()
		handler.Handle("/", obs.Handler(env.Metrics, env.Health, cfg.Observability.Pprof))
		handler.Handle("GET /config", reload)
		if err := obs.Serve(around, &peers{socket, log}, handler, log); err != nil {
			stopServing(err)
		}
	})
	if public != nil {
		wg.Go(func() {
			if err := obs.Serve(around, public, obs.Handler(env.Metrics, env.Health, false), log); err != nil {
				stopServing(err)
			}
		})
	}
	wg.Go(func() { claim.Keep(around, log) })
	wg.Go(func() { reload.watch(around) })
	wg.Go(func() { heed(around, ends, hangups, reload, stopServing, log) })
	wg.Go(func() { announce(serving, env.Health, log) })

	log.Info("starting", obs.KeyVersion, env.Version, obs.KeyPath, o.config)
	log.Debug("configuration", obs.KeyConfig, cfg)
	err = s.Serve(serving, env)
	if cause := context.Cause(serving); cause != nil {
		if errors.Is(err, serving.Err()) {
			err = nil // the answer to being told to stop
		}
		if !errors.Is(cause, errStopping) && !errors.Is(cause, ctx.Err()) {
			err = errors.Join(cause, err)
		}
	}
	log.Info("stopped")
	return err
}

// heed acts on signals until ctx ends.
func heed(ctx context.Context, ends, hangups <-chan os.Signal, reload *reloader, stop context.CancelCauseFunc, log *slog.Logger) {
	stopping := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			reload.request()
		case s := <-ends:
			switch {
			case stopping:
				log.Error("ending at once", obs.KeySignal, s.String())
				os.Exit(exitError)
			default:
				stopping = true
				log.Info("shutting down; a second signal ends the process at once", obs.KeySignal, s.String())
				stop(errStopping)
			}
		}
	}
}

// announce passes on that the service is ready, and when serving ends that it is
// stopping.
func announce(serving context.Context, health *obs.Health, log *slog.Logger) {
	tell := func(state string) {
		if err := notify(state); err != nil {
			log.Warn("systemd was not told", obs.KeyReason, state, obs.KeyError, err)
		}
	}
	select {
	case <-health.Started():
		log.Info("ready")
		tell("READY=1")
	case <-serving.Done():
	}
	<-serving.Done()
	health.Set("process", errStopping)
	tell("STOPPING=1")
}
