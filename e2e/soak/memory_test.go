package soak

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/procfs"
)

const (
	// each is between two looks at the process, whole how many of them are to one at the
	// metrics page: that is work for the router.
	each  = 250 * time.Millisecond
	whole = 8
	// shown is how many lines there are of a mode's memory.
	shown = 20
	// megabyte is the unit of memory.
	megabyte = 1 << 20
)

// memory is the router's over time. The parts are in the order in which they are told.
type memory struct {
	parts []*trend
	of    map[string]*trend
}

// add takes a value at a time in minutes.
func (m *memory) add(part, unit string, at, value float64) {
	t := m.of[part]
	if t == nil {
		t = &trend{name: part, unit: unit}
		m.of[part] = t
		m.parts = append(m.parts, t)
	}
	t.add(at, value)
}

// watchMemory waits for the time and looks at the router's memory meanwhile. In the middle
// and at the end it keeps heap profiles, if they are wanted.
func (r *run) watchMemory(d time.Duration) *memory {
	m := &memory{of: map[string]*trend{}}
	start := time.Now()
	half, line := d/2, d/shown
	for n := 0; time.Since(start) < d && r.pause(min(each, d)); n++ {
		at := time.Since(start)
		r.lookAtProcess(m, at.Minutes())
		if n%whole == 0 {
			r.lookAtPage(m, at.Minutes())
		}
		if at >= half && half > 0 {
			r.keepProfile("middle")
			half = 0
		}
		if at >= line {
			r.Logf("memory after %v: %s", at.Round(time.Second), m.latest())
			line += d / shown
		}
	}
	r.keepProfile("end")
	return m
}

// lookAtProcess takes what is resident, and what of that is the process's own: pages of
// the program come in as they are needed first.
func (r *run) lookAtProcess(m *memory, at float64) {
	r.Helper()
	p, err := procfs.NewProc(r.pilot.Service("router", 1).Pid())
	if err != nil {
		r.Fatal(err)
	}
	status, err := p.NewStatus()
	if err != nil {
		r.Fatal(err)
	}
	m.add("resident", "MB", at, float64(status.VmRSS)/megabyte)
	m.add("its own", "MB", at, float64(status.RssAnon)/megabyte)
}

// What is judged: held is what the router needs, reserved what it has ever needed at once.
const held, reserved = "held", "reserved"

// lookAtPage takes what the router says itself of its memory, and of what is in it.
func (r *run) lookAtPage(m *memory, at float64) {
	r.Helper()
	all := r.metrics()
	take := func(part, unit string, value float64) { m.add(part, unit, at, value) }
	bytes := func(name string) float64 { return router(all, "go_memstats_"+name+"_bytes") / megabyte }
	alive, stacks := router(all, "go_gc_heap_live_bytes")/megabyte, bytes("stack_sys")
	runtime := bytes("sys") - bytes("heap_sys") - stacks
	take("heap alive", "MB", alive)
	take("heap in use", "MB", bytes("heap_inuse"))
	take("heap kept free", "MB", bytes("heap_idle")-bytes("heap_released"))
	take("stacks", "MB", stacks)
	take("runtime", "MB", runtime)
	take(held, "MB", alive+stacks+runtime)
	take(reserved, "MB", bytes("sys"))
	take("goroutines", "", router(all, "go_goroutines"))
	take("threads", "", router(all, "go_threads"))
	take("verdicts", "", router(all, "pgpilot_router_verdict_cache_entries"))
}

// router gives a gauge of the router.
func router(all map[string]*dto.MetricFamily, name string) float64 {
	return float64(sum(all[name], "service", "router"))
}

// keepProfile keeps a profile of the router's heap, behind a collection.
func (r *run) keepProfile(when string) {
	if *heaps == "" {
		return
	}
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + r.pilot.Config().Observability.MetricsAddr + "/router/1/debug/pprof/heap?gc=1")
	if err != nil {
		r.Errorf("heap profile: %v", err)
		return
	}
	defer resp.Body.Close()
	profile, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, profile)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(*heaps, r.mode+"-"+when+".pb.gz"), profile, 0o600)
	}
	if err != nil {
		r.Errorf("heap profile: %v", err)
	}
}

// latest tells of the last sample of everything.
func (m *memory) latest() string {
	line := ""
	for i, t := range m.parts {
		if i > 0 {
			line += ", "
		}
		line += t.name + " " + t.show(t.size[len(t.size)-1])
	}
	return line
}

const (
	// most is how much the router's memory may grow over the last half, as a part of its
	// level there.
	most = 0.01
	// judged is how long a mode has to last for that to be said: caches fill up first.
	judged = 20 * time.Minute
)

// judge tells how everything has changed over the last half, and whether the router grows.
// What is resident lies between both, and follows how quick the collector is.
func (m *memory) judge(t *testing.T, d time.Duration) {
	t.Helper()
	for _, part := range m.parts {
		t.Logf("memory over the last half: %s", part)
	}
	for _, part := range []string{held, reserved} {
		switch g := m.of[part].lastHalf(); {
		case d < judged:
			t.Logf("%s: not judged, a mode has to last for %v", part, judged)
		case g.low > most && part == held: // stacks that are kept for goroutines to come count
			t.Logf("%s: has grown by more than %.0f %% in half of %v", part, 100*most, d)
		case g.low > most:
			t.Errorf("%s: grows by more than %.0f %% in half of %v", part, 100*most, d)
		case g.high > most:
			t.Logf("%s: it is not certain whether it grows by less than %.0f %% in half of %v", part, 100*most, d)
		default:
			t.Logf("%s: grows by less than %.0f %% in half of %v", part, 100*most, d)
		}
	}
}
