package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

const (
	// readyTimeout bounds the wait for one start: a service that is not ready by then
	// waits for something that does not come.
	readyTimeout = 60 * time.Second
	// askTimeout bounds one question to /readyz.
	askTimeout = 2 * time.Second
	// tailLines is how much of a log goes into an error.
	tailLines = 12
)

// errEnded tells a process that is gone from one that is not ready yet.
var errEnded = errors.New("it ended")

// WaitReady returns when the process is ready, at most a minute from now. The error
// says what is missing and ends with the last lines of the log.
func (p *Process) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	state := "no answer yet"
	err := until(ctx, func() (bool, error) {
		if !p.Running() {
			return false, p.ending()
		}
		report, err := p.Ready(ctx)
		switch {
		case err == nil:
			state = describe(report)
		case ctx.Err() == nil:
			state = err.Error()
		}
		return err == nil && report.Ready, nil
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errEnded):
		return fmt.Errorf("%s did not start: %w; the end of its log %s:\n%s", p.Name(), err, p.LogFile(), p.LogTail(tailLines))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s is not ready: %s: %w; the end of its log %s:\n%s", p.Name(), state, err, p.LogFile(), p.LogTail(tailLines))
	default:
		return fmt.Errorf("wait for %s: %w", p.Name(), err)
	}
}

// Ready asks the process's /readyz. An error means that it did not answer.
func (p *Process) Ready(ctx context.Context) (obs.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var report obs.Report
	response, err := p.get(ctx, "/readyz")
	if err != nil {
		return report, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&report); err != nil {
		return report, fmt.Errorf("read the health of %s: %w", p.Name(), err)
	}
	return report, nil
}

// get asks the process's HTTP socket. The caller closes the response's body.
func (p *Process) get(ctx context.Context, path string) (*http.Response, error) {
	pid := p.Pid()
	socket := p.stack.httpSocket(p)
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := rundir.Dial(ctx, socket)
			if err != nil {
				return nil, err
			}
			if err := checkPid(conn, pid); err != nil {
				_ = conn.Close()
				return nil, err
			}
			return conn, nil
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Name()+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", p.Name(), err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", p.Name(), err)
	}
	return response, nil
}

// checkPid refuses the socket of another process: an instance started by hand under
// the same id, or the one before a restart.
func checkPid(conn *net.UnixConn, pid int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("check the peer: %w", err)
	}
	var peer *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("check the peer: %w", err)
	}
	if asked != nil {
		return fmt.Errorf("check the peer: %w", asked)
	}
	if int(peer.Pid) != pid {
		return fmt.Errorf("its socket belongs to process %d, not to %d", peer.Pid, pid)
	}
	return nil
}

// describe names what keeps a service from being ready.
func describe(r obs.Report) string {
	if !r.Started {
		return "still starting"
	}
	var ill []string
	for part, state := range r.Parts {
		if state != "ok" {
			ill = append(ill, part+": "+state)
		}
	}
	slices.Sort(ill)
	return strings.Join(ill, ", ")
}

// LogTail gives the last lines of the process's log, or why it cannot be read.
func (p *Process) LogTail(lines int) string {
	data, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
