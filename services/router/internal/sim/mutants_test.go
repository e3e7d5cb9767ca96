package sim

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/mutant"
)

const (
	position = "libs/lsn/position.go"
	tracker  = "services/router/internal/topology/runs.go"
	group    = "services/router/internal/fence/group.go"
	state    = "services/router/internal/fence/state.go"
	answers  = "services/router/internal/session/server.go"
	reads    = "services/router/internal/fence/reads.go"
	barrier  = "services/router/internal/fence/barrier.go"
	clients  = "services/router/internal/sim/fenced_test.go" // the use of the fence in causal and linear
	loop     = "services/router/internal/sim/router_test.go" // the rules of package engine
)

// within is in how many courses a mutant has to be found.
const within = "10000"

// wrong is a mutant and the mode it breaks.
type wrong struct {
	mutant.Mutant
	mode string
}

func mutants() []wrong {
	mode := "strict"
	one := func(name, file, before, after string) wrong {
		return wrong{mutant.Mutant{Name: name, Edits: []mutant.Edit{{File: file, Old: before, New: after}}}, mode}
	}
	list := []wrong{
		one("no fence", position,
			"return want.IsZero() || (p.Timeline == want.Timeline && p.Timeline != 0 && p.LSN >= want.LSN)", "return true"),
		one("fence off by one record", position, "p.LSN >= want.LSN)", "p.LSN+64 >= want.LSN)"),
		one("positions of two timelines compared", position,
			"(p.Timeline == want.Timeline && p.Timeline != 0 && p.LSN >= want.LSN)", "p.LSN >= want.LSN"),
		one("write position instead of insert position", loop, "LSN: srv.insertPosition()}", "LSN: srv.flushPosition()}"),
		one("positions kept across a replica's restart", tracker,
			"	n.incarnation = inc\n	t.table.Backends[i].Replayed = lsn.Position{}\n", "	n.incarnation = inc\n"),
		one("probe started before the acknowledgement", group,
			"	g.add(waiter[T]{t, p})\n	return !g.flying\n",
			"	if g.flying {\n		g.served = append(g.served, waiter[T]{t, p})\n		return false\n	}\n	g.add(waiter[T]{t, p})\n	return true\n"),
		one("a probe settles what came later", state, "	s.settled = mark\n", "	s.settled = s.clock\n"),
		one("a failed CALL is not fenced", answers,
			"			s.fatal = s.fatal || last\n",
			"			s.fatal = s.fatal || last\n			if s.written && s.status == wire.Idle {\n				s.written = false\n				s.fence.Settle(s.fence.Mark(), s.fence.Position(), s.held[s.at].by)\n			}\n"),
		one("a standby taken for the primary", loop, "if b == r.tracker.Table().Primary && !srv.primary {", "if false {"),
		one("a decision kept over a wait", loop, "if r.fits(c, made) {", "if true {"),
	}
	mode = "causal"
	list = append(list,
		one("replay position as an upper bound of what was seen", clients,
			"if f.state.Saw(f.by, timeline) {", "if f.state.Raise(srv.position()); timeline == 1<<31 {"),
		one("what was seen settled by a probe from before the read's end", reads,
			"	s.clock++\n	s.seen, s.home, s.timeline = s.clock, by, on\n", "	s.seen, s.home, s.timeline = s.clock, by, on\n"),
	)
	mode = "linear"
	return append(list,
		one("a linear read settled by a probe from before its arrival", reads, "{ s.clock++; s.arrived = s.clock }", "{ s.arrived = s.clock }"),
		one("no visibility barrier", clients, "func (f *fenced) passes(p *server) bool {\n", "func (f *fenced) passes(p *server) bool {\n	return true\n}\n\nfunc (f *fenced) unused(p *server) bool {\n"),
		one("a barrier that trusts running transactions", barrier, "return s.Running[:n], false", "return nil, false"),
	)
}

// TestMutantsApply shows that what each of them replaces is there.
func TestMutantsApply(t *testing.T) {
	root, err := mutant.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants() {
		if _, err := m.Overlay(root, t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

// TestMutants shows that the simulation finds each deliberate fault, and says after
// how many courses.
func TestMutants(t *testing.T) {
	if !*withMutants {
		t.Skip("it builds the simulation once for each of them, which takes minutes: make check-consistency does it")
	}
	root, err := mutant.Root()
	if err != nil {
		t.Fatal(err)
	}
	seed := regexp.MustCompile(`seed (\d+): (.*)`)
	for _, m := range mutants() {
		t.Run(m.Name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "sim.test")
			if err := m.Build(t.Context(), root, t.TempDir(), "services/router/internal/sim", program, "test", "-c"); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), program, "-test.run", "^TestCourses$/^"+m.mode+"$", "-schedules", within).CombinedOutput()
			if err == nil {
				t.Fatalf("%s courses show nothing of it:\n%s", within, out)
			}
			found := seed.FindSubmatch(out)
			if found == nil || strings.Contains(string(out), "panic") {
				t.Fatalf("it ends with\n%s", out)
			}
			t.Logf("found by course %s: %s", found[1], found[2])
		})
	}
}
