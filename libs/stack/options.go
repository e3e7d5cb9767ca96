package stack

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// None in place of a number of instances leaves the service out.
const None = -1

// Options says which stack [Start] brings up.
type Options struct {
	// Dir names the stack. It is created if missing and may hold other files.
	Dir string
	// BinDir is the folder of the four programs, named after the services.
	BinDir string
	// ConfigPath is the configuration file the services read. A relative run_dir or
	// password_file in it is looked for in the caller's working folder, as it is by a
	// service started there by hand. Instead of it, Config is written to a file in Dir.
	ConfigPath string
	Config     *config.Config
	// How many instances of each service: 0 is one, None is none. For a stack that runs
	// already, larger numbers add instances and smaller ones change nothing.
	Listeners, Routers, Classifiers, Lagpollers int
	// Detach leaves the processes running when the caller ends.
	Detach bool
	// LogDir gets one file per process, appended to. Empty: logs in Dir, removed by Close.
	LogDir string
	// LogLevel is the services' -log-level. Empty: theirs.
	LogLevel string
	// StopTimeout is how long a process may take to end after SIGTERM before it gets
	// SIGKILL. 0: 15 s, more than a router gives sessions that are in the middle of
	// something.
	StopTimeout time.Duration
	// Logger receives progress at level Info. Nil discards it.
	Logger *slog.Logger
}

const defaultStopTimeout = 15 * time.Second

func (o *Options) normalize() error {
	if o.Dir == "" || o.BinDir == "" {
		return errors.New("a stack needs a folder and its programs: set Options.Dir and Options.BinDir")
	}
	if (o.ConfigPath == "") == (o.Config == nil) {
		return errors.New("a stack needs one configuration: set either Options.ConfigPath or Options.Config")
	}
	for _, path := range []*string{&o.Dir, &o.BinDir, &o.ConfigPath, &o.LogDir} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", *path, err)
		}
		*path = abs
	}
	if o.LogDir == "" {
		o.LogDir = filepath.Join(o.Dir, logFolder)
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = defaultStopTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, c := range o.counts() {
		if c.number < 0 {
			return fmt.Errorf("%d instances of the %s are not possible", c.number, c.service)
		}
		if c.number == 0 {
			continue
		}
		info, err := os.Stat(filepath.Join(o.BinDir, c.service))
		if err != nil || info.Mode()&0o111 == 0 {
			return fmt.Errorf(`the program %s is not in %s: run "make build"`, c.service, o.BinDir)
		}
	}
	return nil
}

type count struct {
	service string
	number  int
}

// counts are in the order of starting: what the others look for comes first.
func (o *Options) counts() []count {
	counts := []count{
		{rundir.Lagpoller, o.Lagpollers}, {rundir.Classifier, o.Classifiers},
		{rundir.Router, o.Routers}, {rundir.Listener, o.Listeners},
	}
	for i, c := range counts {
		switch c.number {
		case 0:
			counts[i].number = 1
		case None:
			counts[i].number = 0
		}
	}
	return counts
}
