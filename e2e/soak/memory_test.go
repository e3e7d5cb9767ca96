package soak

import (
	"fmt"
	"io"
	"math"
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
	m.add(resident, "MB", at, float64(status.VmRSS)/megabyte)
	m.add("its own", "MB", at, float64(status.RssAnon)/megabyte)
}

// What is judged: held is what the router needs, reserved what it has ever needed at once,
// resident what the system has given it.
const held, reserved, resident = "held", "reserved", "resident"

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
	// judged is how long a mode has to last for that to be said: caches fill up first, and in
	// a shorter half 1 % is less than what a collection leaves more or less.
	judged = 20 * time.Minute
)

// limits are what is judged, with how much of it comes and goes by itself, in MB: growth that
// is less is none, whatever part of the level it is. What is reserved is never given
// back, and stays the same to the byte. What is held contains stacks that the runtime keeps for
// goroutines to come: a tenth of a megabyte has been seen, in either direction. What is
// resident follows how quick the collector is: between two collections, a heap of a few megabytes
// may double. A leak raises what is held by more than its limit long before it shows there.
var limits = []struct {
	part  string
	noise float64
}{{reserved, 0}, {held, 0.25}, {resident, 1}}

// sentence is what is said of a quantity's growth.
type sentence uint8

const (
	steady sentence = iota
	uncertain
	grows
)

// judge says whether a quantity grows by more than most, and by more than noise: it does if
// the whole interval that its growth is in lies above both.
func (g growth) judge(noise float64) sentence {
	limit := max(most, noise/max(g.level, 1e-9))
	switch {
	case g.low > limit:
		return grows
	case g.high > limit:
		return uncertain
	}
	return steady
}

// judge tells how everything has changed over the last half, and fails if the router grows.
func (m *memory) judge(t *testing.T, d time.Duration) {
	t.Helper()
	for _, part := range m.parts {
		t.Logf("memory over the last half: %s", part)
	}
	for _, l := range limits {
		if d < judged {
			t.Logf("%s: not judged, a mode has to last for %v", l.part, judged)
			continue
		}
		switch m.of[l.part].lastHalf().judge(l.noise) {
		case grows:
			t.Errorf("%s: grows by more than %.0f %% and %.2f MB in half of %v", l.part, 100*most, l.noise, d)
		case uncertain:
			t.Logf("%s: it is not certain whether it grows by less than %.0f %% or %.2f MB in half of %v", l.part, 100*most, l.noise, d)
		case steady:
			t.Logf("%s: grows by less than %.0f %% or %.2f MB in half of %v", l.part, 100*most, l.noise, d)
		}
	}
}

// Only growth that is certain, and more than what comes and goes, fails the soak.
func TestJudgementOfGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		g     growth
		noise float64
		want  sentence
	}{
		"level":                             {growth{level: 20, low: -0.001, high: 0.002}, 0, steady},
		"shrinks":                           {growth{level: 20, low: -0.1, high: -0.05}, 0, steady},
		"just below the limit":              {growth{level: 20, low: 0.009, high: 0.01}, 0, steady},
		"up and down":                       {growth{level: 20, low: -0.05, high: 0.06}, 0, uncertain},
		"too few points":                    {growth{level: 20, low: math.Inf(-1), high: math.Inf(1)}, 0, uncertain},
		"grows":                             {growth{level: 20, low: 0.011, high: 0.013}, 0, grows},
		"grows by less than its noise":      {growth{level: 20, low: 0.011, high: 0.012}, 0.25, steady},
		"perhaps by more than its noise":    {growth{level: 20, low: 0.011, high: 0.013}, 0.25, uncertain},
		"grows by more than its noise":      {growth{level: 20, low: 0.013, high: 0.014}, 0.25, grows},
		"noise of less than the limit":      {growth{level: 100, low: 0.005, high: 0.009}, 0.25, steady},
		"grows, with noise below the limit": {growth{level: 100, low: 0.011, high: 0.02}, 0.25, grows},
		"nothing there":                     {growth{}, 0.25, steady},
	} {
		if got := c.g.judge(c.noise); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
