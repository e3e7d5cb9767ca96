package poll

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/services/lagpoller/internal/probe"
)

// Settings say how often and how long to ask.
type Settings struct {
	// Interval between polls when nobody waits for news.
	Interval time.Duration
	// Timeout of one poll.
	Timeout time.Duration
	// Burst is the pause between polls of a replica that somebody waits for.
	Burst time.Duration
	// FailureThreshold is how many failures in a row make a backend ill.
	FailureThreshold int
	// BaseBackoff and MaxBackoff bound the pause before an ill backend is tried again.
	BaseBackoff, MaxBackoff time.Duration
	// Monitor is the login.
	Monitor config.Monitor
	// Named are the databases and users that the configuration says something of, in its
	// order.
	Named probe.Names
	// ServerTLS and TCP are how backends are reached.
	ServerTLS config.ServerTLS
	TCP       config.TCP
}

// SettingsOf takes them out of the configuration.
func SettingsOf(c *config.Config) Settings {
	var named probe.Names
	for _, d := range c.Databases {
		named.Databases = append(named.Databases, d.Name)
	}
	for _, u := range c.Users {
		named.Roles = append(named.Roles, u.Name)
	}
	return Settings{
		Named:            named,
		Interval:         c.Health.Interval.D(),
		Timeout:          c.Health.Timeout.D(),
		Burst:            c.Fencing.BurstInterval.D(),
		FailureThreshold: c.Health.FailureThreshold,
		BaseBackoff:      c.Health.BaseBackoff.D(),
		MaxBackoff:       c.Health.MaxBackoff.D(),
		Monitor:          c.Monitor,
		ServerTLS:        c.ServerTLS,
		TCP:              c.TCP,
	}
}

// Check says whether a lagpoller can take a configuration.
func Check(c *config.Config) error {
	s := SettingsOf(c)
	for _, b := range c.Backends() {
		if _, err := s.target(b); err != nil {
			return err
		}
	}
	return nil
}

// target gives where and as whom to log in. Password and certificates are read anew
// each time: their files may have changed.
func (s Settings) target(b config.Backend) (probe.Target, error) {
	server, err := dial.Of(b, s.ServerTLS, s.TCP)
	if err != nil {
		return probe.Target{}, err
	}
	password, err := s.Monitor.Secret()
	if err != nil {
		return probe.Target{}, err
	}
	return probe.Target{Server: server, User: s.Monitor.User, Password: password, Database: s.Monitor.Database}, nil
}
