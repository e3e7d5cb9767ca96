package sim

import (
	"cmp"
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
	lent     = "services/router/internal/session/lease.go"
	reads    = "services/router/internal/fence/reads.go"
	crossing = "services/router/internal/fence/crossing.go"
	former   = "services/router/internal/fence/former.go"
	fencing  = "services/router/internal/session/fencing.go"
	block    = "services/router/internal/session/readonly.go"
	pick     = "services/router/internal/route/pick.go"
	loop     = "services/router/internal/sim/router_test.go"  // the rules of package engine
	rounds   = "services/router/internal/sim/barrier_test.go" // those of its barrier
)

// within is in how many courses a mutant has to be found.
const within = "60000"

// wrong is a mutant and the mode it breaks, or the test that finds it where courses take
// too long to, because something else stands in its way: here, or in another package.
type wrong struct {
	mutant.Mutant
	mode string
	test string
	in   string
}

// simulation is this package.
const simulation = "services/router/internal/sim"

func mutants() []wrong {
	mode := "strict"
	one := func(name, file, before, after string) wrong {
		return wrong{Mutant: mutant.Mutant{Name: name, Edits: []mutant.Edit{{File: file, Old: before, New: after}}}, mode: mode}
	}
	list := []wrong{
		one("no fence", position,
			"return want.IsZero() || (p.Timeline == want.Timeline && p.Timeline != 0 && p.LSN >= want.LSN)", "return true"),
		one("fence off by one record", position, "p.LSN >= want.LSN)", "p.LSN+64 >= want.LSN)"),
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
		one("a transaction goes on on the primary without the barrier", block, "r.Mode = max(r.Mode, fence.Causal)", "r.Mode = max(r.Mode, fence.Relaxed)"),
	}
	for _, m := range []struct {
		wrong
		in, test string
	}{
		{one("positions of two timelines compared", position,
			"(p.Timeline == want.Timeline && p.Timeline != 0 && p.LSN >= want.LSN)", "p.LSN >= want.LSN"), "libs/lsn", "TestCovers"},
		{one("a position of a run that has ended", tracker, "run == 0 || run != n.run || b.Role", "b.Role"), "services/router/internal/topology", "TestReplayedByAnOwnConnection"},
		{one("a transaction goes on on any replica", block, "		r.Only, r.Run = route.Set(0).With(by.Backend), by.Run\n", "		_ = by\n"), "services/router/internal/session", "TestScenarios"},
	} {
		m.wrong.in, m.wrong.test = m.in, m.test
		list = append(list, m.wrong)
	}
	mode = "causal"
	list = append(list,
		wrong{mode: mode, Mutant: mutant.Mutant{Name: "replay position as an upper bound of what was seen", Edits: []mutant.Edit{
			{File: lent, Old: "	h.timeline = g.Replayed.Timeline\n", New: "	h.timeline = g.Replayed.Timeline\n	if g.Slot == ReplicaSlot {\n		s.fence.Raise(g.Replayed)\n	}\n"},
			{File: fencing, Old: "moved := s.fence.Saw(h.by, on)", New: "moved := on == 1<<31"},
		}}},
		one("what was seen settled by a probe from before the read's end", reads,
			"	s.clock++\n	s.seen, s.home, s.timeline = s.clock, by, on\n", "	s.seen, s.home, s.timeline = s.clock, by, on\n"),
	)
	list = append(list,
		one("what was seen is not remembered", state, " && (m < Causal || s.seen <= s.settled)", ""),
		one("a replica that has restarted taken for the one that was read", pick, "|| b.Run != r.Run)", ")"),
		one("no word before an answer that may be older", loop, "c.s.Parted(fence.Server{Backend: b, Run: with.run}, r.timeline()) {", "c.s.Parted(fence.Server{Backend: b, Run: with.run}, r.timeline()) && b < 0 {"),
		one("no visibility barrier for causal", crossing, "func (c *Crossing) Passed() bool { return ", "func (c *Crossing) Passed() bool { return true || "),
		one("the next run of a replica speaks for the one that was read", rounds, "c.everyone || c.by == by {", "c.everyone || c.by.Backend == by.Backend {"),
	)
	mode = "linear"
	for _, m := range []wrong{
		one("a replica that has restarted speaks for its former run", rounds, "unseen(x) && (!c.everyone || !l.former.May(x) && !b.gone.May(x))", "unseen(x) && (!c.everyone || !b.gone.May(x) && l != nil)"),
		one("nobody speaks for a replica that is not configured any more", former, "func (f *Former) Begin() { f.known, f.listing = false, false }", "func (f *Former) Begin() {}"),
		one("a replica that is behind speaks for the others", crossing, "return !written.IsZero() && replayed.Covers(written)", "return true"),
	} {
		m.test = "TestWhatCannotBeAskedStaysInDoubt"
		list = append(list, m)
	}
	return append(list,
		one("a transaction on a replica sees what its first statement has seen", block, "	case s.stays() && s.movable():\n		s.read()\n", "	case s.stays() && s.movable():\n		s.enter(Granted)\n"),
		one("a linear read settled by a probe from before its arrival", reads, "{ s.clock++; s.arrived = s.clock }", "{ s.arrived = s.clock }"),
		one("no visibility barrier", crossing, "func (c *Crossing) Passed() bool { return ", "func (c *Crossing) Passed() bool { return true || "),
		one("a barrier that takes transactions in progress for ended", crossing, "		for _, x := range xids {\n			c.doubts", "		for _, x := range xids[:0] {\n			c.doubts"),
		one("a barrier only for who has read a replica", rounds, "return aside || mode == fence.Linear", "return aside"),
		one("a barrier by a round from before the arrival", rounds, "c.crossing.Begin(b.from(c))\n", "c.crossing.Begin(b.from(c))\n	c.crossing.Open(nil, lsn.Position{})\n"),
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
			in := cmp.Or(m.in, simulation)
			if err := m.Build(t.Context(), root, t.TempDir(), in, program, "test", "-c"); err != nil {
				t.Fatal(err)
			}
			if m.test != "" {
				t.Chdir(filepath.Join(root, in)) // a test finds its files there
				if out, err := exec.CommandContext(t.Context(), program, "-test.run", "^"+m.test+"$").CombinedOutput(); err == nil || strings.Contains(string(out), "panic") {
					t.Errorf("%s ends with %v:\n%s", m.test, err, out)
				}
				return
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
