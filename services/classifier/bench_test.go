package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// distinct gives texts that share no template.
func distinct(n int64) string {
	return fmt.Sprintf("SELECT c%d, relname FROM pg_class WHERE oid = 17 AND relkind = 'r'", n)
}

// percentiles reports them in microseconds.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*p/100])/1e3, fmt.Sprintf("p%d-µs", p))
	}
}

// A router's view of one classifier process: one question at a time.
func BenchmarkAnswer(b *testing.B) {
	s := newStand(b)
	s.start("1")
	c := s.client()
	connected(b, c, 1)
	var n int64
	for name, next := range map[string]func() string{
		"hit":  func() string { return distinct(0) },
		"miss": func() string { n++; return distinct(n) },
	} {
		b.Run(name, func(b *testing.B) {
			ask(b, c, next())
			var took []time.Duration
			for b.Loop() {
				text := next()
				key := keyOf(b, text)
				done := make(chan error)
				began := time.Now()
				c.Ask(verdict.Request{Key: key, Database: "app", Text: text}, func(_ verdict.Verdict, err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			percentiles(b, took)
		})
	}
}

// Many questions at a time about 200,000 statements that nobody has seen, and what
// memory the classifier and its workers have then.
func BenchmarkDistinct(b *testing.B) {
	const statements, askers = 200_000, 64
	for b.Loop() {
		s := newStand(b)
		p := s.start("1")
		c := s.client()
		connected(b, c, 1)
		var n atomic.Int64
		began := time.Now()
		var wg sync.WaitGroup
		for range askers {
			wg.Go(func() {
				for i := n.Add(1); i <= statements; i = n.Add(1) {
					if _, err := ask(b, c, distinct(i)); err != nil {
						b.Error(err)
					}
					if i == statements/5 {
						b.ReportMetric(resident(b, p.cmd.Process.Pid), "MB-at-40k")
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(statements/time.Since(began).Seconds(), "statements/s")
		b.ReportMetric(resident(b, p.cmd.Process.Pid), "MB-at-200k")
		for i, pid := range children(b, p.cmd.Process.Pid) {
			b.ReportMetric(resident(b, pid), fmt.Sprintf("MB-worker-%d", i))
		}
	}
}

// resident is a process's memory in MB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(stat))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / 1e6
}
