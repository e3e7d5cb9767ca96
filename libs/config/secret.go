package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
)

// mask stands for a secret wherever a configuration is shown.
const mask = "********"

// md5Verifier is the form in which PostgreSQL stores MD5 passwords
// (documentation, chapter "pg_authid").
var md5Verifier = regexp.MustCompile(`^md5[0-9a-f]{32}$`)

// Secret gives the user's password, read anew from its file or the environment.
func (u User) Secret() (string, error) {
	s, err := readSecret(u.Password, u.PasswordFile, u.PasswordEnv)
	if err != nil {
		return "", fmt.Errorf("find the password of user %q: %w", u.Name, err)
	}
	return s, nil
}

// Secret gives the password of the monitoring login, read anew from its file or
// the environment.
func (m Monitor) Secret() (string, error) {
	s, err := readSecret(m.Password, m.PasswordFile, m.PasswordEnv)
	if err != nil {
		return "", fmt.Errorf("find the password of monitor.user %q: %w", m.User, err)
	}
	return s, nil
}

// Secret gives the password, or the token if there is no user, read anew from its
// file or the environment.
func (b Bus) Secret() (string, error) {
	s, err := readSecret(b.Password, b.PasswordFile, b.PasswordEnv)
	if err != nil {
		return "", fmt.Errorf("find the password for bus.url: %w", err)
	}
	return s, nil
}

func readSecret(password, file, env string) (string, error) {
	var s, where string
	switch {
	case password != "":
		s, where = password, "password"
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read password_file: %w", err)
		}
		s, _, _ = strings.Cut(string(data), "\n")
		s, where = strings.TrimSuffix(s, "\r"), fmt.Sprintf("the first line of password_file %s", file)
	case env != "":
		var set bool
		where = fmt.Sprintf("the environment variable %s named by password_env", env)
		if s, set = os.LookupEnv(env); !set {
			return "", fmt.Errorf("%s is not set: put the password there", where)
		}
	default:
		return "", errNoSource
	}
	if s == "" {
		return "", fmt.Errorf("%s is empty: put the password there", where)
	}
	if err := checkPassword(s); err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	return s, nil
}

var errNoSource = errors.New("give exactly one of password, password_file and password_env")

// checkPassword refuses what is no password: with only a verifier pgpilot could
// check a client but not log in to a server.
func checkPassword(s string) error {
	switch {
	case strings.HasPrefix(s, "SCRAM-SHA-256$"):
		return errors.New("this is a SCRAM verifier: verifier-only users come in a later version, so give the password itself")
	case md5Verifier.MatchString(s):
		return errors.New("this is an MD5 hash: pgpilot logs in with SCRAM-SHA-256, so give the password itself")
	case strings.ContainsRune(s, 0):
		return errors.New("a password cannot hold a zero byte: remove it")
	}
	return nil
}

// masked hides a secret but shows whether there is one.
func masked(s string) string {
	if s == "" {
		return ""
	}
	return mask
}

// String gives the user without the password.
func (u User) String() string {
	u.Password = masked(u.Password)
	type plain User // without String, which would call itself
	return fmt.Sprintf("%+v", plain(u))
}

// LogValue implements slog.LogValuer.
func (u User) LogValue() slog.Value { return slog.StringValue(u.String()) }

// String gives the login without the password.
func (m Monitor) String() string {
	m.Password = masked(m.Password)
	type plain Monitor
	return fmt.Sprintf("%+v", plain(m))
}

// LogValue implements slog.LogValuer.
func (m Monitor) LogValue() slog.Value { return slog.StringValue(m.String()) }

// String gives the bus without the password.
func (b Bus) String() string {
	b.Password = masked(b.Password)
	type plain Bus
	return fmt.Sprintf("%+v", plain(b))
}

// LogValue implements slog.LogValuer.
func (b Bus) LogValue() slog.Value { return slog.StringValue(b.String()) }

// Masked gives a copy to show: passwords are replaced. Encoding a Config itself
// as JSON gives a file that Parse takes, with its passwords.
func (c *Config) Masked() *Config {
	shown := *c
	shown.Monitor.Password = masked(c.Monitor.Password)
	shown.Bus.Password = masked(c.Bus.Password)
	shown.Users = append([]User(nil), c.Users...)
	for i := range shown.Users {
		shown.Users[i].Password = masked(shown.Users[i].Password)
	}
	return &shown
}

// String gives the configuration as JSON, without passwords.
func (c *Config) String() string {
	b, err := json.MarshalIndent(c.Masked(), "", "  ")
	if err != nil {
		return err.Error() // no value of a Config fails to encode
	}
	return string(b)
}

// LogValue implements slog.LogValuer.
func (c *Config) LogValue() slog.Value { return slog.AnyValue(json.RawMessage(c.String())) }
