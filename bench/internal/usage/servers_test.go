package usage

import "testing"

func TestServerProcessesAreKnownByTheirTitles(t *testing.T) {
	var s Servers
	for title, want := range map[string]any{
		"postgres: pgpilot pgpilot 127.0.0.1(40404) idle":                           &s.Backends,
		"postgres: pgpilot pgpilot [local] SELECT":                                  &s.Backends,
		"postgres: walsender pgpilot 127.0.0.1(40404) streaming 0/3000148":          &s.Replication,
		"postgres: walreceiver streaming 0/3000148":                                 &s.Replication,
		"postgres: startup recovering 000000010000000000000003":                     &s.Replication,
		"postgres: replica1: startup recovering 000000010000000000000003":           &s.Replication,
		"postgres: 15/main: pgpilot pgpilot ::1(40404) idle in transaction":         &s.Backends,
		"postgres: walwriter ":                                                      &s.Replication,
		"postgres: checkpointer ":                                                   &s.Rest,
		"postgres: background writer ":                                              &s.Rest,
		"postgres: autovacuum launcher ":                                            &s.Rest,
		"postgres: logical replication launcher ":                                   &s.Rest,
		"/usr/lib/postgresql/15/bin/postgres -D data -c listen_addresses=localhost": &s.Rest,
	} {
		if got := s.share(title); got != want {
			t.Errorf("%q is taken for something else", title)
		}
	}
}
