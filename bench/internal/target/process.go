package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// process is a program that this process started and that ends with it.
type process struct {
	name   string
	pid    int
	exited chan struct{}
	err    error // to be read after exited
	log    string
}

// start runs a program, which writes to a log file.
func start(cmd *exec.Cmd, name, log string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	p := &process{name: name, exited: make(chan struct{}), log: log}
	started := make(chan error, 1)
	go func() {
		// Linux sends the death signal when the thread ends that forked.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop ends the process with SIGINT, on which PgBouncer and pgpool-II end without
// waiting for their clients, and waits.
func (p *process) stop(ctx context.Context) error {
	if err := syscall.Kill(p.pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		return nil // its exit code says nothing
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", p.name, ctx.Err())
	}
}

// accepts returns when the process listens.
func (p *process) accepts(ctx context.Context, address string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.exited:
			text, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended at once (%v):\n%s", p.name, p.err, text) //nolint:errorlint // it may have ended well
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to listen: %w", p.name, ctx.Err())
		case <-tick.C:
		}
	}
}

// Ports are looked for below those of outgoing connections.
const lowestPort, highestPort = 20000, 24999

// freePorts finds ports of the loopback interface that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	start := lowestPort + os.Getpid()%1000
	for port := start; port <= highestPort && len(ports) < n; port++ {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, fmt.Errorf("try a port: %w", err)
		}
		ports = append(ports, port)
	}
	if len(ports) < n {
		return nil, fmt.Errorf("found only %d of %d free ports from %d to %d", len(ports), n, start, highestPort)
	}
	return ports, nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// unprivileged is the user for programs that refuse to run as root; nil without root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("look up a user without privileges: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the uid of nobody: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the gid of nobody: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// ownerOf is the user to whom a folder belongs.
func ownerOf(path string) (*syscall.Credential, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look up the owner of a folder: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("look up the owner of %s: the system does not tell", path)
	}
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}, nil
}
