package config

import (
	"slices"
	"testing"
)

func TestChanges(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   []string
		err    string
	}{
		{"none", func(*Config) {}, nil, ""},
		{"while running", func(c *Config) { c.Routing.AllToPrimary = true; c.Pool.MaxSize++ }, []string{"pool.max_size", "routing.all_to_primary"}, ""},
		{"users", func(c *Config) { c.Users = append(c.Users, User{Name: "new"}) }, []string{"users"}, ""},
		{"one fixed", func(c *Config) { c.Listen = ":1"; c.Pool.MaxSize++ }, []string{"listen", "pool.max_size"},
			"listen cannot change while pgpilot runs: change it back, or restart pgpilot"},
		{"several fixed", func(c *Config) { c.RunDir = "/x"; c.Primary.Name = "p"; c.Replicas = nil; c.Bus.Listen = "" }, []string{"run_dir", "primary", "replicas", "bus.listen"},
			"run_dir, bus.listen cannot change while pgpilot runs: change them back, or restart pgpilot"},
		{"servers and modes", func(c *Config) { c.Primary.Name = "p"; c.Replicas = nil; c.Pool.Mode = Session }, []string{"primary", "replicas", "pool.mode"}, ""},
	}
	for _, tt := range tests {
		old := parse(t, `{`+minimal+`, "replicas": ["a:1"]}`)
		new := parse(t, `{`+minimal+`, "replicas": ["a:1"]}`)
		tt.change(new)
		got, err := Changes(old, new)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || (err != nil && err.Error() != tt.err) {
			t.Errorf("%s: got %v, %v; want %v, %s", tt.name, got, err, tt.want, tt.err)
		}
	}
}
