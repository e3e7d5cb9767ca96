package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// child is a server this process started. Its goroutine ends with the server.
type child struct {
	pid    int
	exited chan struct{}
}

// spawn starts cmd. A tied child gets SIGQUIT when this process dies.
func spawn(cmd *exec.Cmd, tied bool) (*child, error) {
	if tied {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	}
	started := make(chan error, 1)
	c := &child{exited: make(chan struct{})}
	go func() {
		// Linux delivers the death signal when the forking thread ends: keep it until
		// there is nobody left to receive the signal.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // the server's log says why it ended
		}
		close(c.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// postmaster is what a server's postmaster.pid says ("Database File Layout").
type postmaster struct {
	pid   int
	alive bool // the process exists and is this server
	ready bool // the server says it accepts connections
}

func readPostmaster(dataDir string) postmaster {
	data, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return postmaster{}
	}
	const statusLine = 7
	lines := strings.Split(string(data), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return postmaster{}
	}
	return postmaster{
		pid:   pid,
		alive: isPostmaster(pid, dataDir),
		ready: len(lines) > statusLine && strings.TrimSpace(lines[statusLine]) == "ready",
	}
}

// isPostmaster looks at the command line rather than only for the pid: that of a zombie is
// empty, and a reused pid shows another one. Backends set theirs to something else.
func isPostmaster(pid int, dataDir string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(cmdline, []byte("\x00-D\x00"+dataDir+"\x00"))
}

// parentOf returns 0 if the process does not exist.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field, the program's name in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return ppid
}

// accepts tries a connection; false without an error means the server is not there yet.
func (m *Member) accepts(ctx context.Context) (bool, error) {
	conn, err := m.control(ctx)
	if err != nil {
		const cannotConnectNow = "57P03"
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code != cannotConnectNow {
			return false, err
		}
		return false, ctx.Err()
	}
	closeConn(conn)
	return true, nil
}

// closeConn says goodbye even when the caller's context has ended.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// logTail returns the last lines of the server's log for error messages.
func (m *Member) logTail() string {
	const keep = 8
	data, err := os.ReadFile(m.LogFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-keep):], "\n")
}
