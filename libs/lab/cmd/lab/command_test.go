package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		args    string
		want    command // of name, number, dir, replicas, port, portSet
		wantErr string
	}{
		{args: "up", want: command{name: "up", dir: ".run/lab", replicas: 2, port: 55432}},
		{args: "-dir x up -replicas 3 -port 7000", want: command{name: "up", dir: "x", replicas: 3, port: 7000, portSet: true}},
		{args: "kill -dir x 0", want: command{name: "kill", dir: "x", replicas: 2, port: 55432}},
		{args: "promote 2", want: command{name: "promote", number: 2, dir: ".run/lab", replicas: 2, port: 55432}},
		{args: "", wantErr: "which command"},
		{args: "stop", wantErr: `unknown command "stop"`},
		{args: "down 1", wantErr: "down takes no argument"},
		{args: "kill", wantErr: "kill takes the number of one member"},
		{args: "kill 1 2", wantErr: "kill takes the number of one member"},
		{args: "start primary", wantErr: `not "primary"`},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			got, err := parse(strings.Fields(test.args))
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			got.timeout = 0
			if err != nil || got != test.want {
				t.Fatalf("got %+v, %v", got, err)
			}
		})
	}
}

// freeBase finds the first of three free ports in a row, below those that outgoing connections
// and labs on free ports take.
func freeBase(t *testing.T) int {
	t.Helper()
	for range 100 {
		first, free := 10000+rand.IntN(4997), 0
		for port := first; port < first+3; port++ {
			if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
				_ = l.Close()
				free++
			}
		}
		if free == 3 {
			return first
		}
	}
	t.Fatal("no three free ports in a row")
	return 0
}

func TestCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	port := freeBase(t)
	base, third := strconv.Itoa(port), strconv.Itoa(port+2)
	t.Cleanup(func() { _ = run(context.Background(), []string{"down", "-dir", dir}, &bytes.Buffer{}) })
	// Each line of the table is a row of the status that the command prints.
	steps := []struct {
		args    string
		want    []string
		refused string
	}{
		{args: "up -replicas 1 -port " + base, want: []string{"primary primary", "replica1 replica running", "connect: psql"}},
		{args: "up -replicas 1", want: []string{"primary primary", "replica1 replica running"}},
		{args: "pause-replay 1", want: []string{"replica1 replica paused"}},
		{args: "pause-replay 0", refused: "primary is a primary: only the replay of a replica"},
		{args: "promote 1", refused: `stop it first with "lab kill 0"`},
		{args: "resume-replay 1", want: []string{"replica1 replica running"}},
		{args: "kill 1", want: []string{"replica1 stopped"}},
		{args: "resume-replay 1", refused: `replica1 is stopped: "lab start 1" starts it`},
		{args: "start 1", want: []string{"replica1 replica running"}},
		{args: "kill 0", want: []string{"primary stopped"}},
		{args: "promote 1", want: []string{"replica1 primary 2"}},
		{args: "up", want: []string{"primary stopped", "replica1 primary 2", "replica2 replica " + third + " 2",
			"not started, since replica1 was promoted in its place: primary", "connect: psql"}},
		{args: "start 0", want: []string{"primary primary 1", "replica1 primary 2"}},
		{args: "status", want: []string{"primary primary 1", "replica1 primary 2"}},
		{args: "up", want: []string{"there is a second primary: primary"}},
		{args: "promote 2 -force", want: []string{"replica2 primary 3"}},
		{args: "down", want: nil},
		{args: "down", want: []string{"no lab in"}},
	}
	for _, step := range steps {
		var out bytes.Buffer
		err := run(t.Context(), append(strings.Fields(step.args), "-dir", dir), &out)
		if step.refused != "" {
			if err == nil || !strings.Contains(err.Error(), step.refused) {
				t.Errorf("%s: %v, want %q", step.args, err, step.refused)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", step.args, err)
		}
		for _, want := range step.want {
			if !hasRow(out.String(), want) {
				t.Errorf("%s: no row with %q in\n%s", step.args, want, out.String())
			}
		}
	}
	if err := run(t.Context(), []string{"status", "-dir", dir}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `"lab up"`) {
		t.Errorf("status without a lab says %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("down left %s: %v", dir, err)
	}
}

// hasRow looks for a line that has all words in this order.
func hasRow(text, words string) bool {
	for line := range strings.Lines(text) {
		rest, found := line, true
		for _, word := range strings.Fields(words) {
			var ok bool
			_, rest, ok = strings.Cut(rest, word)
			found = found && ok
		}
		if found {
			return true
		}
	}
	return false
}
