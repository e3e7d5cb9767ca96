package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
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

// Start brings up the cluster in opts.Dir: it creates what is missing, starts what is stopped, leaves running
// members alone, and returns when every member accepts connections. If creating a
// new cluster fails, nothing is left behind. The caller owns the cluster and calls [Cluster.Close], unless
// opts.Detach is set and the cluster is meant to stay.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if err := opts.normalize(); err != nil {
		return nil, err
	}
	acc, err := currentAccount()
	if err != nil {
		return nil, err
	}
	claim, err := claimFolder(ctx, opts.Dir)
	if err != nil {
		return nil, err
	}
	st, err := readState(opts.Dir)
	fresh := errors.Is(err, ErrNoCluster)
	if err != nil && !fresh {
		claim.release()
		return nil, err
	}
	c, err := prepare(ctx, opts, acc, claim, st, fresh)
	if err != nil {
		if fresh {
			return nil, errors.Join(err, claim.remove())
		}
		claim.release()
		return nil, err
	}
	if err := c.bringUp(ctx); err != nil {
		return nil, errors.Join(err, c.abandon(ctx, fresh))
	}
	if c.detach {
		c.ports.release()
		c.claim.release()
		c.claim = nil
	}
	return c, nil
}

// prepare decides everything (programs, folders, ports) and notes it in lab.json before anything is started.
func prepare(ctx context.Context, opts Options, acc account, claim *folder, st state, fresh bool) (_ *Cluster, err error) {
	chosen := opts.BinDir
	if chosen == "" {
		chosen = os.Getenv(binEnv)
	}
	binDir, err := findBinaries(chosen, st.BinDir, debianBins)
	if err != nil {
		return nil, err
	}
	bin, err := openBinaries(ctx, binDir, acc)
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := claim.refuseForeign(); err != nil {
			return nil, err
		}
		st = state{SuperPassword: rand.Text(), Major: bin.major, Created: claim.created}
	}
	if st.Major != bin.major {
		return nil, fmt.Errorf(`the lab in %s was made by PostgreSQL %d, not %d of %s: select that version, or run "lab down" first`,
			opts.Dir, st.Major, bin.major, bin.dir)
	}
	if !fresh && opts.BasePort != 0 && opts.BasePort != st.Ports[0] {
		return nil, fmt.Errorf(`the lab in %s uses port %d, not %d: give that port, or run "lab down" first`,
			opts.Dir, st.Ports[0], opts.BasePort)
	}
	var reserved portReservation
	defer func() {
		if err != nil {
			reserved.release()
		}
	}()
	if missing := opts.Replicas + 1 - len(st.Ports); missing > 0 {
		var ports []int
		if opts.BasePort != 0 {
			for len(ports) < missing {
				ports = append(ports, opts.BasePort+len(st.Ports)+len(ports))
			}
		} else if reserved, ports, err = reservePorts(missing); err != nil {
			return nil, err
		}
		for _, port := range ports {
			if err := checkPort(port); err != nil {
				return nil, err
			}
		}
		st.Ports = append(st.Ports, ports...)
	}
	// A work folder below the temporary folder may have been cleaned away; the lab then starts anew.
	if _, statErr := os.Stat(st.Work); st.Work == "" || statErr != nil {
		if st.Work, err = makeWork(ctx, opts.Dir, acc); err != nil {
			return nil, err
		}
		st.Primary = 0
	}
	st.BinDir, st.FastUnsafe = bin.dir, opts.FastUnsafe
	if err := writeState(opts.Dir, st); err != nil {
		return nil, err
	}
	c := attach(opts.Dir, st, acc, bin, opts.Detach, opts.Logger)
	c.claim, c.ports = claim, reserved
	return c, nil
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

// makeWork returns the folder for the members and the socket folder (see the package comment).
func makeWork(ctx context.Context, dir string, acc account) (string, error) {
	const longestSocket = "/sockets/.s.PGSQL.65535"
	if acc.credential == nil && len(dir)+len(longestSocket) <= 107 {
		return dir, nil
	}
	work, err := os.MkdirTemp("", "pgpilot-lab-")
	if err != nil {
		return "", fmt.Errorf("create the lab's work folder: %w", err)
	}
	if err := acc.own(work); err != nil {
		return "", errors.Join(err, os.Remove(work))
	}
	if !acc.canEnter(ctx, work) {
		return "", errors.Join(fmt.Errorf("the OS user %s, who runs the servers, can not enter %s: "+
			"set TMPDIR to a folder every user can enter, such as /tmp", acc.name, os.TempDir()), os.Remove(work))
	}
	return work, nil
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

// abandon cleans up after a failed start, even if ctx is what ended it.
func (c *Cluster) abandon(ctx context.Context, fresh bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if fresh {
		return c.Close(ctx)
	}
	var failed []error
	for _, m := range c.members {
		if !c.detach && m.child != nil {
			failed = append(failed, m.Kill(ctx))
		}
	}
	c.ports.release()
	c.claim.release()
	return errors.Join(failed...)
}

// Close stops every server in immediate mode and removes every file of the cluster. Closing a cluster that
// is gone already is not an error; a Close that failed may be repeated.
func (c *Cluster) Close(ctx context.Context) error {
	c.mu.Lock()
	claim := c.claim
	c.mu.Unlock()
	owner := claim != nil
	if !owner {
		var err error
		if claim, err = claimFolder(ctx, c.dir); err != nil {
			return err
		}
	}
	if err := c.removeAll(ctx, claim, owner); err != nil {
		if !owner {
			claim.release()
		}
		return err
	}
	c.mu.Lock()
	c.claim = nil
	c.mu.Unlock()
	c.ports.release()
	return claim.remove()
}

// removeAll leaves only what belongs to the claim.
func (c *Cluster) removeAll(ctx context.Context, claim *folder, owner bool) error {
	st, err := readState(c.dir)
	if errors.Is(err, ErrNoCluster) {
		return nil
	}
	if err != nil {
		return err
	}
	claim.created = st.Created
	now := c
	if !owner {
		// Another process may have added members, or moved a lost work folder.
		now = attach(c.dir, st, c.account, c.bin, true, c.log)
	}
	if err := now.each(func(m *Member) error { return m.Kill(ctx) }, now.members...); err != nil {
		return err
	}
	for _, m := range now.members {
		err = errors.Join(err, os.RemoveAll(m.dir()), os.RemoveAll(m.dir()+unfinished))
	}
	err = errors.Join(err, os.RemoveAll(now.socketDir()))
	if now.work != now.dir {
		err = errors.Join(err, os.RemoveAll(now.work))
	}
	if err != nil {
		return fmt.Errorf("remove the lab's files: %w", err)
	}
	return nil
}

// CloseAbandoned closes the cluster in dir, which must be a lab's folder, if no process owns it, for
// example because the one that did was killed. It reports false, without waiting, if one does. A detached
// cluster is owned by nobody.
func CloseAbandoned(ctx context.Context, dir string) (bool, error) {
	lock, err := tryLock(filepath.Join(dir, lockFile))
	if lock == nil {
		return false, err
	}
	claim := &folder{dir: dir, lock: lock}
	c, err := Open(dir)
	if err == nil {
		err = c.removeAll(ctx, claim, false)
	} else if errors.Is(err, ErrNoCluster) {
		err = nil
	}
	if err != nil {
		claim.release()
		return false, err
	}
	return true, claim.remove()
}

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
