package engine

import (
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// parts are what a configuration says only together with files and the environment, or in
// words that are to be understood.
type parts struct {
	monitor  upstream.Credentials
	targets  map[string]dial.Server
	users    map[string]string
	values   override.Values
	defaults defaults
}

// partsOf reads them.
func partsOf(c *config.Config) (p parts, err error) {
	p.monitor.User = c.Monitor.User
	if p.monitor.Password, err = c.Monitor.Secret(); err != nil {
		return p, err
	}
	p.targets = map[string]dial.Server{}
	for _, b := range c.Backends() {
		if p.targets[b.Name], err = dial.Of(b, c.ServerTLS, c.TCP); err != nil {
			return p, err
		}
	}
	p.users = make(map[string]string, len(c.Users))
	for _, u := range c.Users {
		if p.users[u.Name], err = u.Secret(); err != nil {
			return p, err
		}
	}
	if p.values, err = valuesOf(c); err != nil {
		return p, err
	}
	p.defaults, err = defaultsOf(c)
	return p, err
}

// Check says whether a router can take a configuration.
func Check(c *config.Config) error {
	_, err := partsOf(c)
	return err
}
