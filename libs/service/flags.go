package service

import (
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// options are the flags every service has.
type options struct {
	config string
	id     string
	level  slog.Level
	// http is a TCP address where the HTTP socket's pages are served too.
	http    string
	version bool
	// check is the page to ask the running instances for, instead of running one.
	check string
}

// parseFlags reads a service's arguments. The error is flag.ErrHelp when only the
// usage was asked for; it has been written to w then, as has any complaint.
func parseFlags(name string, args []string, w io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(w)
	fs.StringVar(&o.config, "config", "", "configuration `file` (default: pgpilot.json here, then /etc/pgpilot/pgpilot.json)")
	fs.StringVar(&o.id, "id", "", "instance `id`, up to 16 letters, digits, _ or - (default: the first free number)")
	fs.Func("log-level", "least `level` to log: debug, info, warn or error (default info)", func(s string) (err error) {
		o.level, err = obs.ParseLevel(s)
		return err
	})
	fs.StringVar(&o.http, "http", "", "TCP `address`, host:port, for this instance's metrics and health, besides its socket")
	fs.Func("check", "ask the instances that run here, or the one with -id, and exit with 0 or 1: `ready` or alive", func(s string) error {
		page, ok := checks[s]
		if !ok {
			return fmt.Errorf("want ready or alive")
		}
		o.check = page
		return nil
	})
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q: every option of %s is a flag, see -help", fs.Arg(0), name)
		fmt.Fprintln(w, err)
		return o, err
	}
	return o, nil
}
