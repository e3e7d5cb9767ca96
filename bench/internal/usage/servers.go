package usage

import (
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Servers is what PostgreSQL servers have used, by what their processes are for. Processes
// that have ended are not in it: compare two of them only while connections stay.
type Servers struct {
	// Backends run statements, of the load and of anybody else.
	Backends time.Duration
	// Replication writes, sends, receives and replays WAL.
	Replication time.Duration
	// Rest is every other process: the postmaster, checkpointer, autovacuum and so on.
	Rest time.Duration
}

// OfServers gives it for the servers whose postmasters have these pids.
func OfServers(postmasters ...int) (Servers, error) {
	var s Servers
	for _, pid := range postmasters {
		root, err := OfProcess(pid)
		if err != nil {
			return Servers{}, err
		}
		s.Rest += root.CPU
		for _, child := range children(pid) {
			p, err := procfs.NewProc(child)
			if err != nil {
				continue // it has ended
			}
			title, err := p.CmdLine()
			if err != nil {
				continue
			}
			of, err := OfProcess(child)
			if err != nil {
				continue
			}
			*s.share(strings.Join(title, " ")) += of.CPU
		}
	}
	return s, nil
}

// share finds the part that a process with this title belongs to (PostgreSQL documentation,
// "Standard Unix Tools"): "postgres: ", and "cluster_name: " if there is one, come before what
// it is or whom it serves.
func (s *Servers) share(title string) *time.Duration {
	what := ""
	if i := strings.LastIndex(title, ": "); i >= 0 {
		what = title[i+2:]
	}
	switch word, _, _ := strings.Cut(what, " "); word {
	case "walsender", "walreceiver", "walwriter", "startup":
		return &s.Replication
	case "checkpointer", "background", "autovacuum", "logical", "logger", "archiver", "io", "slotsync", "stats", "":
		return &s.Rest
	}
	return &s.Backends
}
