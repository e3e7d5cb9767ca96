package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
)

// searched are the files looked for when none is named.
func searched() []string { return []string{"pgpilot.json", "/etc/pgpilot/pgpilot.json"} }

// Find gives the file to use when none was named.
func Find() (string, error) {
	for _, path := range searched() {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no configuration: neither %s exists, so name the file with -config", strings.Join(searched(), " nor "))
}

// Load reads and checks the file at path. The error joins everything that is
// wrong with it, one sentence each.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("configuration %s does not exist: name another file with -config", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(data, path)
}

// RunDir gives the run directory that the file at path names, also when [Load]
// would refuse the file for anything else: services that run go on with the file
// they had, and have to be found. It is the default one if the file cannot be read.
func RunDir(path string) string {
	c := Default()
	if data, err := os.ReadFile(path); err == nil {
		named := struct {
			RunDir *string `json:"run_dir"`
		}{&c.RunDir}
		_ = json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &named) // then it stays the default
	}
	return c.RunDir
}

// Parse checks a configuration and gives it with every default filled in.
// sourceName names it in errors, which are as those of Load.
func Parse(data []byte, sourceName string) (*Config, error) {
	p := &problems{source: sourceName, lines: map[string]int{}}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write a byte order mark
	tree, serr := parseTree(data)
	if serr != nil {
		p.addAt(serr.line, "", "%s", serr.reason)
		return nil, p.err()
	}
	c := Default()
	p.lines[""] = tree.line
	p.decode(tree, reflect.ValueOf(c).Elem(), "")
	p.complete(c)
	p.validate(c)
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// complete fills in the defaults that follow from other keys.
func (p *problems) complete(c *Config) {
	if _, given := p.lines["health.stale_after"]; !given {
		c.Health.StaleAfter = max(c.Health.StaleAfter, 3*c.Health.Interval)
	}
	m := &c.Monitor
	if m.Password != "" || m.PasswordFile != "" || m.PasswordEnv != "" {
		return
	}
	for _, u := range c.Users {
		if m.User == "" || m.User == u.Name {
			m.User, m.Password, m.PasswordFile, m.PasswordEnv = u.Name, u.Password, u.PasswordFile, u.PasswordEnv
			return
		}
	}
}
