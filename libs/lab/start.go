package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"
)

// Start brings up the cluster in opts.Dir: it creates what is missing, starts what is stopped, leaves running
// members alone, and returns when every member accepts connections. A former primary is not started
// ([Cluster.FormerNote]). If creating a
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
	ports, reserved, err := choosePorts(opts, st.Ports)
	if err != nil {
		return nil, err
	}
	st.Ports = ports
	defer func() {
		if err != nil {
			reserved.release()
		}
	}()
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

// choosePorts adds a port for every member that has none yet.
func choosePorts(opts Options, ports []int) (_ []int, reserved portReservation, err error) {
	missing := opts.Replicas + 1 - len(ports)
	if missing <= 0 {
		return ports, nil, nil
	}
	if opts.BasePort == 0 {
		reserved, free, err := reservePorts(missing)
		return append(ports, free...), reserved, err
	}
	for range missing {
		port := opts.BasePort + len(ports)
		if err := checkPort(port); err != nil {
			return nil, nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil, nil
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

// abandon cleans up after a failed start, even if ctx is what ended it.
func (c *Cluster) abandon(ctx context.Context, fresh bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if fresh {
		return c.Close(ctx)
	}
	var failed []error
	for _, m := range c.members {
		if server := m.ownServer(); !c.detach && server != nil {
			failed = append(failed, m.Kill(ctx))
		}
	}
	c.ports.release()
	c.claim.release()
	return errors.Join(failed...)
}
