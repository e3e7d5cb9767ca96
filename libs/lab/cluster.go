package lab

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
)

// Keys of the package's log records.
const (
	logMember = "member"
	logPort   = "port"
	logPID    = "pid"
	logSignal = "signal"
)

// Cluster is a primary and its replicas. Its methods may be called from several goroutines.
type Cluster struct {
	dir           string
	work          string
	bin           binaries
	account       account
	superPassword string
	fast          bool
	detach        bool
	log           *slog.Logger
	members       []*Member // by number, fixed
	ports         portReservation

	mu    sync.Mutex
	claim *folder // held while the servers are this process's own
	state state
}

// Open attaches to the cluster that [Start] with Detach, or another process, made in dir. Servers started
// through it are detached. The error is [ErrNoCluster] if there is none.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the lab's folder: %w", err)
	}
	st, err := readState(dir)
	if err != nil {
		return nil, err
	}
	acc, err := currentAccount()
	if err != nil {
		return nil, err
	}
	return attach(dir, st, acc, binaries{dir: st.BinDir, major: st.Major}, true, slog.New(slog.DiscardHandler)), nil
}

func attach(dir string, st state, acc account, bin binaries, detach bool, log *slog.Logger) *Cluster {
	c := &Cluster{
		dir: dir, work: st.Work, bin: bin, account: acc, superPassword: st.SuperPassword,
		fast: st.FastUnsafe, detach: detach, log: log, state: st,
	}
	for number, port := range st.Ports {
		c.members = append(c.members, newMember(c, number, port))
	}
	return c
}

func (c *Cluster) socketDir() string { return filepath.Join(c.work, "sockets") }

// Dir is the folder that names the cluster.
func (c *Cluster) Dir() string { return c.dir }

// Members are all servers by number.
func (c *Cluster) Members() []*Member { return append([]*Member(nil), c.members...) }

// Primary is the member last made primary by this process, or at the time of [Open].
func (c *Cluster) Primary() *Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[c.state.Primary]
}

// Member returns the member with a number, 0 being the first primary.
func (c *Cluster) Member(number int) (*Member, error) {
	if number < 0 || number >= len(c.members) {
		return nil, fmt.Errorf("the lab has no member %d, only 0 (the primary) to %d", number, len(c.members)-1)
	}
	return c.members[number], nil
}

// Replica returns replica i, counted from 1. It panics if there is none.
func (c *Cluster) Replica(i int) *Member {
	if i < 1 || i >= len(c.members) {
		panic(fmt.Sprintf("lab: no replica %d among %d", i, len(c.members)-1))
	}
	return c.members[i]
}

// Replicas are the members made as replicas, replica 1 first.
func (c *Cluster) Replicas() []*Member { return append([]*Member(nil), c.members[1:]...) }

// each runs f for the members at the same time.
func (c *Cluster) each(f func(*Member) error, members ...*Member) error {
	failed := make([]error, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() { failed[i] = f(m) })
	}
	group.Wait()
	return errors.Join(failed...)
}
