package engine

import (
	"fmt"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// defaults are what the configuration says for the sessions of one user or database.
type defaults struct {
	users, databases map[string]override.Set
	// variants are the settings of sessions for which other values hold than for all.
	variants map[override.Values]*session.Settings
}

// defaultsOf reads the configuration's.
func defaultsOf(c *config.Config) (d defaults, err error) {
	d = defaults{map[string]override.Set{}, map[string]override.Set{}, map[override.Values]*session.Settings{}}
	for i, u := range c.Users {
		if d.users[u.Name], err = setOf(u.Fencing, u.Route, u.Freshness); err != nil {
			return d, fmt.Errorf("users[%d]: %w", i, err)
		}
	}
	for i, db := range c.Databases {
		if d.databases[db.Name], err = setOf(db.Fencing, db.Route, db.Freshness); err != nil {
			return d, fmt.Errorf("databases[%d]: %w", i, err)
		}
	}
	return d, nil
}

// setOf reads what one of them says.
func setOf(fencing, route string, freshness config.Duration) (set override.Set, err error) {
	for name, value := range map[string]string{override.FencingName: fencing, override.RouteName: route} {
		if value == "" {
			continue
		}
		if _, p := set.Parse(name, value); p != nil {
			return set, p
		}
	}
	if freshness > 0 {
		set.SetFreshness(freshness.D())
	}
	return set, nil
}

// valuesOf gives what holds for all sessions that ask for nothing else.
func valuesOf(c *config.Config) (override.Values, error) {
	mode, ok := fence.ParseMode(c.Fencing.Mode)
	if !ok {
		return override.Values{}, fmt.Errorf("fencing.mode: there is no mode %q", c.Fencing.Mode)
	}
	return override.Values{Mode: mode}, nil
}

// settingsFor gives the settings of a login's sessions.
func (e *Engine) settingsFor(l upstream.Login) *session.Settings {
	user, database := e.defaults.users[l.User], e.defaults.databases[l.Database]
	v := user.Over(database.Over(e.settings.Values))
	if v == e.settings.Values {
		return &e.settings
	}
	s := e.defaults.variants[v]
	if s == nil {
		s = new(e.settings)
		s.Values = v
		e.defaults.variants[v] = s
	}
	return s
}
