package faults

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/consistency"
	"github.com/pgpilot/pgpilot/libs/mutant"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// deliberate is a fault of the router's, and the faults of the cluster under which it
// shows.
type deliberate struct {
	mutant.Mutant
	mode      string
	under     []fault
	configure func(*config.Config)
}

// patient has reads wait for their fence rather than go to the primary: what the fence
// lets through shows.
func patient(c *config.Config) { c.Fencing.Wait = config.Duration(200 * time.Millisecond) }

// A probe that starts before the acknowledgement is missing here: on one machine the
// probe's answer overtakes no acknowledgement. So is a missing barrier, of which 10,148
// operations of the mode linear have shown nothing. The router's simulation finds both.
func deliberates() []deliberate {
	delayed := []fault{{name: "replay delayed", inject: (*run).delayReplay}}
	return []deliberate{
		{mode: "strict", configure: patient, Mutant: mutant.Mutant{Name: "no fence", Edits: []mutant.Edit{{
			File: "libs/lsn/position.go",
			Old:  "return want.IsZero() || (p.Timeline == want.Timeline && p.Timeline != 0 && p.LSN >= want.LSN)",
			New:  "return true",
		}}}},
		{mode: "strict", configure: patient, Mutant: mutant.Mutant{Name: "write position instead of insert position", Edits: []mutant.Edit{{
			File: "services/router/internal/engine/probe.go",
			Old:  `const probeQuery = "SELECT pg_catalog.pg_current_wal_insert_lsn(),`,
			New:  `const probeQuery = "SELECT pg_catalog.pg_current_wal_lsn(),`,
		}}}},
		{mode: "strict", configure: patient, under: delayed, Mutant: mutant.Mutant{Name: "fence off by one record", Edits: []mutant.Edit{{
			File: "libs/lsn/position.go",
			Old:  "p.LSN >= want.LSN)",
			New:  "p.LSN+64 >= want.LSN)",
		}}}},
		{mode: "strict", configure: patient, under: []fault{{name: "replica killed far from its restartpoint", inject: (*run).killReplica}},
			Mutant: mutant.Mutant{Name: "positions kept across a replica's restart", Edits: []mutant.Edit{{
				File: "services/router/internal/topology/runs.go",
				Old:  "	n.incarnation = inc\n	t.table.Backends[i].Replayed = lsn.Position{}\n",
				New:  "	n.incarnation = inc\n",
			}}}},
		{mode: "strict", configure: patient, Mutant: mutant.Mutant{Name: "failed CALL not fenced", Edits: []mutant.Edit{{
			File: "services/router/internal/session/server.go",
			Old:  "			s.fatal = s.fatal || last\n",
			New:  "			s.fatal = s.fatal || last\n			if s.written && s.status == wire.Idle {\n				s.written = false\n				s.fence.Settle(s.fence.Mark(), s.fence.Position(), s.held[s.at].by)\n			}\n",
		}}}},
		{mode: "causal", configure: patient, under: delayed, Mutant: mutant.Mutant{Name: "what was seen is not remembered", Edits: []mutant.Edit{{
			File: "services/router/internal/fence/state.go",
			Old:  " && (m < Causal || s.seen <= s.settled)",
			New:  "",
		}}}},
		{mode: "bounded", under: []fault{{name: "replay paused", inject: (*run).pauseLong}}, Mutant: mutant.Mutant{Name: "a replica as fresh as the newest sample", Edits: []mutant.Edit{{
			File: "services/router/internal/topology/freshness.go",
			Old:  "t.samples.AsOf(run, b.Replayed.LSN)",
			New:  "t.samples.AsOf(run, b.Replayed.LSN+1<<40)",
		}}}},
	}
}

// TestMutantsApply shows that what each of them replaces is there.
func TestMutantsApply(t *testing.T) {
	root, err := mutant.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deliberates() {
		if _, err := d.Overlay(root, t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

// attempts is how often a deliberate fault is looked for. One shows only when the servers' faults
// and the sessions' operations meet, of which a busy machine has few.
const attempts = 6

// TestMutants shows that each deliberate fault of the router is found.
func TestMutants(t *testing.T) {
	if *long == 0 {
		t.Skip("it builds and runs a router for each of them, which takes minutes: make check-consistency does it")
	}
	root, err := mutant.Root()
	if err != nil {
		t.Fatal(err)
	}
	good := stacktest.Programs(t)
	for _, d := range deliberates() {
		t.Run(d.Name, func(t *testing.T) {
			bin := t.TempDir()
			for _, service := range []string{rundir.Listener, rundir.Classifier, rundir.Lagpoller} {
				if err := os.Symlink(filepath.Join(good, service), filepath.Join(bin, service)); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Build(t.Context(), root, t.TempDir(), "services/router", filepath.Join(bin, rundir.Router), "build", "-buildvcs=false"); err != nil {
				t.Fatal(err)
			}
			m, err := consistency.ModeOf(d.mode, bound)
			if err != nil {
				t.Fatal(err)
			}
			operations := 0
			for attempt := range uint64(attempts) {
				r := perform(t, plan{mode: d.mode, sessions: 16, seed: *seed + attempt, faults: d.under, every: true, duration: 10 * time.Second, binDir: bin, configure: d.configure})
				found := consistency.Check(r.history(d.mode), m.Promise)
				r.report()
				r.reportMode(d.mode, found)
				if len(found.Violations) > 0 {
					return
				}
				operations += found.Operations()
			}
			t.Errorf("%d operations show nothing of it", operations)
		})
	}
}
