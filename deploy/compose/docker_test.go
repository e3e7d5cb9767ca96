//go:build compose

package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait for a condition; none takes this long unless
// something is broken.
const patience = 3 * time.Minute

// project is one run of the compose files under a name and ports of its own.
type project struct {
	t     *testing.T
	name  string
	files []string
	env   []string
	ports map[string]string
}

// newProject chooses free ports. Whatever an earlier run of the test left is
// removed now, and what this one makes at its end.
func newProject(t *testing.T, name string, env []string, files ...string) *project {
	t.Helper()
	p := &project{t: t, name: name, files: files, ports: map[string]string{}}
	p.env = append(os.Environ(), env...)
	for _, variable := range []string{"PGPILOT_PORT", "METRICS_PORT", "BUS_PORT", "PROMETHEUS_PORT"} {
		port := freePort(t)
		p.ports[variable] = port
		p.env = append(p.env, variable+"="+port)
	}
	p.down()
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := p.try("logs", "--no-color", "--tail", "60")
			t.Logf("the services' last words:\n%s", logs)
		}
		p.down()
	})
	return p
}

// with is the same project for a subtest.
func (p *project) with(t *testing.T) *project {
	q := *p
	q.t = t
	return &q
}

// freePort gives a port of 127.0.0.1 that nobody has at the moment. It is none that the
// kernel gives to outgoing connections: some of those are made until Docker binds it.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("none of a hundred ports between 20000 and 30000 is free")
	return ""
}

// docker runs the docker command.
func docker(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = env
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("docker %s: %w\n%s%s", strings.Join(args, " "), err, &out, &complaints)
	}
	return out.String(), nil
}

// try runs docker compose and gives what it wrote to standard output. It also works
// while the test is being cleaned up.
func (p *project) try(args ...string) (string, error) {
	all := []string{"compose", "--project-name", p.name, "--progress", "quiet"}
	for _, f := range p.files {
		all = append(all, "--file", f)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), 15*time.Minute)
	defer cancel()
	return docker(ctx, p.env, append(all, args...)...)
}

// compose is try for what must succeed.
func (p *project) compose(args ...string) string {
	p.t.Helper()
	out, err := p.try(args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// run executes a command in a container of a service made for it.
func (p *project) run(service string, command ...string) string {
	p.t.Helper()
	return p.compose(append([]string{"run", "--rm", "--no-TTY", service}, command...)...)
}

// up brings the stack up and waits until it is healthy.
func (p *project) up(args ...string) {
	p.t.Helper()
	p.compose(append([]string{"up", "--detach", "--wait", "--wait-timeout", "180"}, args...)...)
}

// down removes everything of the project. An engine that is still busy with removing a
// container refuses to be told so again, so there is a second chance.
func (p *project) down() {
	p.t.Helper()
	var err error
	for range 2 {
		if _, err = p.try("--profile", "*", "down", "--volumes", "--remove-orphans"); err == nil {
			return
		}
		p.t.Log(err)
	}
	p.t.Error(err)
}

// containers gives the ids of a service's containers, of all services for "".
func (p *project) containers(service string) []string {
	p.t.Helper()
	args := []string{"ps", "--all", "--quiet"}
	if service != "" {
		args = append(args, service)
	}
	return strings.Fields(p.compose(args...))
}

// left lists what of the project Docker still has.
func (p *project) left() []string {
	p.t.Helper()
	var left []string
	for _, kind := range [][]string{{"ps", "--all"}, {"volume", "ls"}, {"network", "ls"}} {
		out, err := docker(p.t.Context(), p.env, append(kind, "--quiet", "--filter", "label=com.docker.compose.project="+p.name)...)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, id := range strings.Fields(out) {
			left = append(left, kind[0]+" "+id)
		}
	}
	return left
}

// inspection is the part of docker inspect that the test looks at.
type inspection struct {
	Name   string
	Config struct {
		User   string
		Labels map[string]string
	}
	HostConfig struct {
		ReadonlyRootfs bool
		NanoCpus       int64
		Memory         int64
		PidsLimit      *int64
		CapDrop        []string
		SecurityOpt    []string
		NetworkMode    string
	}
}

func (p *project) inspect(ids ...string) []inspection {
	p.t.Helper()
	out, err := docker(p.t.Context(), p.env, append([]string{"inspect"}, ids...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	var found []inspection
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		p.t.Fatal(err)
	}
	return found
}

// page gets a page of a published port.
func (p *project) page(port, path string) (int, string, error) {
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://127.0.0.1:"+p.ports[port]+path, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// eventually waits for a condition; the error says why it does not hold yet.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, errors.Join(t.Context().Err(), err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}
