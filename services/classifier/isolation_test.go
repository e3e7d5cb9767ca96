package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/parse/poison"
	"github.com/pgpilot/pgpilot/services/classifier/internal/quarantine"
)

// askers put distinct questions without a pause until stopped.
type askers struct {
	t     *testing.T
	asked atomic.Int64
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// startAskers has n of them. failed is called with each error.
func startAskers(t *testing.T, c *verdict.Client, n int, failed func(text string, err error)) *askers {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	a := &askers{t: t, stop: stop}
	for g := range n {
		a.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				// Names, since constants would make one template of them all.
				text := fmt.Sprintf("SELECT c%d_%d FROM pg_catalog.pg_class", g, i)
				switch v, err := ask(t, c, text); {
				case err != nil:
					failed(text, err)
				case v.Kind != verdict.Read && v.Effects == verdict.Unclassified().Effects:
					t.Errorf("%s was not judged", text)
				}
				a.asked.Add(1)
			}
		})
	}
	t.Cleanup(a.end)
	return a
}

func (a *askers) end() {
	a.stop()
	a.wg.Wait()
}

// flow waits until questions have been answered.
func (a *askers) flow() {
	a.t.Helper()
	before := a.asked.Load()
	until(a.t, "questions are answered", func() bool { return a.asked.Load() > before+200 })
}

func poisoned(cause string) string { return "SELECT " + cause + " FROM t" + poison.Name(cause) }

// A text that crashes, hangs or bloats the parser costs one process and its own
// verdict, once for all classifiers, and across restarts.
func TestPoisonCostsItsOwnVerdict(t *testing.T) {
	s := newStand(t)
	one, two := s.start("1"), s.start("2")
	c := s.client()
	connected(t, c, 2)
	load := startAskers(t, c, 4, func(text string, err error) { t.Errorf("%s: %v", text, err) })
	load.flow()
	causes := []string{poison.Crash, poison.Hang, poison.Memory}
	ended := func(ids ...string) (n float64) {
		for _, id := range ids {
			for _, cause := range causes {
				n += s.metric(id, `pgpilot_classifier_workers_ended_total{cause="`+cause+`"}`)
			}
		}
		return n
	}
	for _, cause := range causes {
		for range 10 { // both classifiers get some
			if v, err := ask(t, c, poisoned(cause)); err != nil || v != verdict.Unclassified() {
				t.Fatalf("%s: got %+v, %v", cause, v, err)
			}
		}
		load.flow()
	}
	if n := ended("1", "2"); n != 3 {
		t.Errorf("%v parser processes ended by 3 texts", n)
	}
	if n := s.metric("1", "pgpilot_classifier_quarantine_entries"); n != 3 {
		t.Errorf("%v entries in quarantine", n)
	}
	load.end()
	one.stop(syscall.SIGTERM)
	two.stop(syscall.SIGKILL)
	connected(t, c, 0)
	s.start("3")
	connected(t, c, 1)
	for _, cause := range causes {
		wantKind(t, c, poisoned(cause), verdict.Write)
	}
	if n := ended("3"); n != 0 {
		t.Errorf("%v parser processes ended after a restart", n)
	}
	if n := s.metric("3", "pgpilot_classifier_quarantine_hits_total"); n != 3 {
		t.Errorf("%v statements were held", n)
	}

	// Whoever removes the file lets them be judged again.
	if err := os.Remove(s.dir.Join(quarantine.FileName)); err != nil {
		t.Fatal(err)
	}
	wantKind(t, c, poisoned(poison.Crash), verdict.Write)
	if n := ended("3"); n != 1 {
		t.Errorf("%v parser processes ended after the quarantine was cleared", n)
	}
}

// Whatever befalls the quarantine's file, no classifier gives a text that it knows to its
// parser again, and one that starts afterwards knows it too.
func TestADamagedQuarantineHolds(t *testing.T) {
	s := newStand(t)
	s.start("1")
	s.start("2")
	c := s.client()
	connected(t, c, 2)
	text := poisoned(poison.Crash)
	askBoth := func() {
		for range 10 { // both classifiers get some
			wantKind(t, c, text, verdict.Write)
		}
	}
	askBoth()
	path := s.dir.Join(quarantine.FileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []func() error{
		func() error { return os.Truncate(path, int64(len(whole)/2)) },
		func() error { return os.WriteFile(path, make([]byte, len(whole)+1), 0o600) },
	} {
		for _, id := range []string{"1", "2"} { // both know it
			until(t, "it is in quarantine", func() bool { return s.metric(id, "pgpilot_classifier_quarantine_entries") == 1 })
		}
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		askBoth()
		until(t, "the file is whole again", func() bool {
			b, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(b), fmt.Sprintf("%x", keyOf(t, text)))
		})
		askBoth()
	}
	s.start("3")
	connected(t, c, 3)
	for range 5 {
		askBoth()
	}
	ended := 0.0
	for _, id := range []string{"1", "2", "3"} {
		ended += s.metric(id, `pgpilot_classifier_workers_ended_total{cause="`+poison.Crash+`"}`)
	}
	if ended != 1 {
		t.Errorf("%v parser processes ended by one text", ended)
	}
}

// A classifier that stands still is given one question and no more.
func TestAStoppedClassifierIsNotWaitedFor(t *testing.T) {
	s := newStand(t)
	one := s.start("1")
	s.start("2")
	c := s.client()
	connected(t, c, 2)
	if err := one.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.SetTimeout(5 * time.Second) // on a busy machine, too, enough for the one that runs
	unanswered := 0
	for i := range 300 {
		if _, err := ask(t, c, fmt.Sprintf("SELECT c%d FROM pg_catalog.pg_class", i)); errors.Is(err, verdict.ErrTimeout) {
			unanswered++
		} else if err != nil {
			t.Fatal(err)
		}
		// With none on its way at either, the next may go to the stopped one.
		if unanswered == 0 {
			continue
		}
		c.SetTimeout(patience)
	}
	if unanswered > 1 {
		t.Errorf("%d questions waited for the stopped classifier", unanswered)
	}
	if err := one.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, "the one that was stopped answers", func() bool {
		wantKind(t, c, fmt.Sprintf("SELECT d%d FROM pg_catalog.pg_class", time.Now().UnixNano()), verdict.Read)
		return s.metric("1", "pgpilot_classifier_requests_total") > 1
	})
}

// children lists the processes that a process has started.
func children(t testing.TB, pid int) []int {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue // the thread is gone, or the kernel does not tell
		}
		for _, f := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

// gone reports whether a process has ended, whether or not anybody has waited for it.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(after, "Z")
}

// Parser processes do not outlive their classifier, not even one that hangs.
func TestNoParserProcessIsLeft(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s := newStand(t)
		p := s.start("1")
		c := s.client()
		connected(t, c, 1)
		workers := children(t, p.cmd.Process.Pid)
		if len(workers) < 2 {
			t.Fatalf("processes %v were started", workers)
		}
		c.Ask(verdict.Request{Key: keyOf(t, poisoned(poison.Sleep)), Database: "app", Text: poisoned(poison.Sleep)},
			func(verdict.Verdict, error) {})
		until(t, "it is asked", func() bool { return s.metric("1", "pgpilot_classifier_requests_total") == 1 })
		p.stop(sig)
		until(t, "its parser processes are gone", func() bool {
			for _, pid := range workers {
				if !gone(pid) {
					return false
				}
			}
			return true
		})
	}
}
