package target

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// Target is something that runs and takes clients.
type Target interface {
	// DSNs are the URLs for clients, who take turns. Writes is that of a second connection
	// of each, for what writes; empty where clients do not choose between servers.
	DSNs() []string
	Writes() string
	// Proxy are the pids of what stands in a statement's way, All those of everything
	// that belongs to the target. Both are empty for direct.
	Proxy() []int
	All() []int
	// Counters are what the target counts itself.
	Counters(ctx context.Context) (Counters, error)
	// Stop ends it.
	Stop(ctx context.Context) error
}

// Counters are totals since a target was started.
type Counters struct {
	// Reads are statements known to read, Fallbacks those of them that had to go to the
	// primary because of the session's fence.
	Reads, Fallbacks float64
}

// Start starts what a spec says and returns when it takes clients. Its name, in folders
// and logs, is the spec's.
func (s *Stage) Start(ctx context.Context, spec Spec) (Target, error) {
	dir, err := os.MkdirTemp(s.dir, spec.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("create the folder of %s: %w", spec.Name, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the folder of %s: %w", spec.Name, err)
	}
	switch spec.Kind {
	case Direct:
		var d direct
		for _, m := range s.serversOf(spec) {
			d.dsns = append(d.dsns, m.DSN())
		}
		d.dsns, d.writes = apart(spec, d.dsns)
		return d, nil
	case PgBouncer:
		return s.startPgBouncer(ctx, spec, dir)
	case Pgpool:
		return s.startPgpool(ctx, spec, dir)
	case Pgpilot:
		return s.startPgpilot(ctx, spec, dir)
	}
	return nil, fmt.Errorf("unknown kind of target %q", spec.Kind)
}

// hostOf gives where a target finds a server: its address, or the folder of its socket.
func hostOf(spec Spec, m *lab.Member) string {
	if spec.Unix {
		return m.SocketDir()
	}
	return m.Host
}

// serversOf gives the servers that a target which does not route has its clients on.
func (s *Stage) serversOf(spec Spec) []*lab.Member {
	switch {
	case spec.Replicas:
		return s.Lab.Replicas()
	case spec.Split:
		return append([]*lab.Member{s.Lab.Primary()}, s.Lab.Replicas()...)
	}
	return []*lab.Member{s.Lab.Primary()}
}

// apart takes the primary's URL, the first, from the others where clients choose.
func apart(spec Spec, dsns []string) (reads []string, writes string) {
	if spec.Split {
		return dsns[1:], dsns[0]
	}
	return dsns, ""
}

// direct is the servers themselves.
type direct struct {
	dsns   []string
	writes string
}

func (d direct) DSNs() []string                           { return d.dsns }
func (d direct) Writes() string                           { return d.writes }
func (direct) Proxy() []int                               { return nil }
func (direct) All() []int                                 { return nil }
func (direct) Counters(context.Context) (Counters, error) { return Counters{}, nil }
func (direct) Stop(context.Context) error                 { return nil }

// proxy is a target of one program, with the databases that it knows.
type proxy struct {
	*process
	dsns   []string
	writes string
}

// urls gives those of a program's databases.
func urls(port int, databases []string) []string {
	var all []string
	for _, name := range databases {
		u := url.URL{
			Scheme: "postgres", User: url.UserPassword(lab.User, lab.Password),
			Host: address(port), Path: "/" + name, RawQuery: "sslmode=disable",
		}
		all = append(all, u.String())
	}
	return all
}
func (p proxy) DSNs() []string                             { return p.dsns }
func (p proxy) Writes() string                             { return p.writes }
func (p proxy) Proxy() []int                               { return []int{p.pid} }
func (p proxy) All() []int                                 { return []int{p.pid} }
func (p proxy) Counters(context.Context) (Counters, error) { return Counters{}, nil }
func (p proxy) Stop(ctx context.Context) error             { return p.stop(ctx) }

// writeFiles writes the configuration of a program, by file name.
func writeFiles(dir string, files map[string]string) error {
	for name, content := range files {
		// The password in it is the lab's, which everybody knows.
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write a configuration: %w", err)
		}
	}
	return nil
}
