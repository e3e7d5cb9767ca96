package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// checks are what -check can ask, and the page that answers it.
var checks = map[string]string{"ready": "/readyz", "alive": "/healthz"}

const (
	// checkTimeout bounds one instance's answer.
	checkTimeout = 3 * time.Second
	// checkAnswer is how much of an answer is shown.
	checkAnswer = 4096
)

// errElsewhere says that an instance runs in another container.
var errElsewhere = errors.New("it runs in another container")

// check asks running instances of a service for a page of theirs and says what is
// wrong: the one with the id, or all that run in this container. A container thus
// finds its own among those that share the run directory, whatever number it has,
// and images need no other program for it.
func check(ctx context.Context, runDir, name, id, page string) error {
	if _, err := os.Stat(runDir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no %s runs here: there is no folder %s", name, runDir) // not for us to make
	}
	dir, err := rundir.Open(runDir)
	if err != nil {
		return err
	}
	if id != "" {
		return ask(ctx, dir.HTTPSocket(name, id), page, false)
	}
	sockets, err := dir.HTTPSockets(name)
	if err != nil {
		return err
	}
	here := 0
	var problems, dead []error
	for _, socket := range sockets {
		switch err := ask(ctx, socket, page, true); {
		case errors.Is(err, errElsewhere):
		case errors.Is(err, errDead):
			dead = append(dead, err)
		default:
			here++
			problems = append(problems, err)
		}
	}
	if here == 0 {
		return errors.Join(append(dead, fmt.Errorf("no %s runs here: none of this container has a socket in %s", name, runDir))...)
	}
	return errors.Join(problems...)
}

// errDead says that nobody answers: the socket of an instance that has ended.
var errDead = errors.New("it does not run")

// ask gets a page over an instance's HTTP socket. When only this container's are
// asked, the error is errElsewhere for others.
func ask(ctx context.Context, socket, page string, onlyHere bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c, err := rundir.Dial(ctx, socket)
	if err != nil {
		return fmt.Errorf("%w: %w", errDead, err)
	}
	defer c.Close()
	if onlyHere {
		here, err := rundir.PeerHere(c)
		if err != nil {
			return err
		}
		if !here {
			return errElsewhere
		}
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service"+page, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", socket, err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("ask %s: %w", socket, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, checkAnswer))
	if err != nil {
		return fmt.Errorf("ask %s: %w", socket, err)
	}
	return fmt.Errorf("%s says %s: %s", socket, answer.Status, bytes.TrimSpace(body))
}
