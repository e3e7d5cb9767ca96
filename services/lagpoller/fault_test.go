package main

import (
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

func TestRestartsChangeTheIncarnation(t *testing.T) {
	c := labtest.Start(t, 1)
	d := runDir(t)
	start(t, d, configure(c))
	e := listen(t, d)
	replica := c.Replica(1)
	before := e.lag(t, replica.Name, "before", caughtUp)

	if err := replica.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	down := e.lag(t, replica.Name, "down", func(l bus.Lag) bool { return !l.Healthy })
	if down.Error == "" || down.Role != bus.Replica || down.Incarnation != before.Incarnation {
		t.Errorf("an ill replica keeps what was last known: %+v", down)
	}
	e.shape(t, "down", func(m bus.Topology) bool {
		return len(m.Members) == 2 && !m.Members[1].Healthy && m.Primary == "primary"
	})
	if err := replica.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := e.lag(t, replica.Name, "up again", caughtUp)
	if b, a := before.Incarnation, restarted.Incarnation; a.Postmaster <= b.Postmaster || a.Children <= b.Children || a.SystemID != b.SystemID || a.Timeline != b.Timeline {
		t.Errorf("after a restart: %+v, before: %+v", a, b)
	}

	// One backend killed: the postmaster lives on, everything below it is new.
	sql := connect(t, replica.SuperDSN())
	var pid int
	if err := sql.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if err := replica.KillBackend(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	crashed := e.lag(t, replica.Name, "after the crash", func(l bus.Lag) bool { return caughtUp(l) && l.Incarnation != restarted.Incarnation })
	want := restarted.Incarnation
	want.Children = crashed.Incarnation.Children
	if crashed.Incarnation != want || want.Children <= restarted.Incarnation.Children {
		t.Errorf("after a crash restart: %+v, before: %+v", crashed.Incarnation, restarted.Incarnation)
	}
}

func TestPromotion(t *testing.T) {
	c := labtest.Start(t, 2)
	d := runDir(t)
	lp := start(t, d, configure(c))
	e := listen(t, d)
	before := e.shape(t, "before", func(m bus.Topology) bool {
		return m.Primary == "primary" && m.Members[1].Role == bus.Replica && m.Members[2].Role == bus.Replica
	})
	old := before.Members[0].Incarnation.Timeline
	if err := c.WaitCaughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Primary().Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Promote(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	after := e.shape(t, "after", func(m bus.Topology) bool { return m.Primary == "replica1" })
	if got := after.Members[1]; got.Role != bus.Primary || got.Incarnation.Timeline != old+1 || after.Generation <= before.Generation {
		t.Errorf("topology: %+v", after)
	}
	sql := connect(t, c.Primary().SuperDSN())
	floor := write(t, sql)
	if n := len(after.SwitchPoints); n != 1 || after.SwitchPoints[0].Timeline != old || after.SwitchPoints[0].LSN == 0 || after.SwitchPoints[0].LSN > floor {
		t.Errorf("switch points: %+v", after.SwitchPoints)
	}
	// The other replica follows without a new connection, on the new timeline.
	f := e.lag(t, "replica2", "following", func(l bus.Lag) bool { return caughtUp(l) && l.ReplayLSN >= floor })
	if f.Incarnation.Timeline != old+1 {
		t.Errorf("the follower replays %+v on timeline %d", f, f.Incarnation.Timeline)
	}
	// And wants on the new timeline are answered.
	p := lsn.Position{Timeline: old + 1, LSN: write(t, sql)}
	wish(t, e, p)
	e.lag(t, "replica2", "the wanted position", func(l bus.Lag) bool { return l.ReplayLSN >= p.LSN })

	// The old primary comes back as it was: the one that was promoted stays the
	// primary, and the old one is told apart.
	if err := c.Members()[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.shape(t, "two that answer as a primary", func(m bus.Topology) bool {
		if m.Primary != "replica1" {
			t.Fatalf("the primary is %q", m.Primary)
		}
		now := m.Members[0]
		return now.Healthy && now.Role == bus.Primary && !now.Incarnation.SameRun(before.Members[0].Incarnation)
	})
	if m := lp.scrape(t); m["pgpilot_backend_superseded backend=primary"] != 1 || m["pgpilot_backend_healthy backend=primary role=primary"] != 0 {
		t.Errorf("metrics: %v", m)
	}

	// A question that fails behind the observation takes nothing of it away.
	watcher := connect(t, c.Primary().SuperDSN())
	execute(t, sql, "BEGIN; LOCK TABLE pg_db_role_setting IN ACCESS EXCLUSIVE MODE")
	const waiting = " FROM pg_stat_activity WHERE application_name = 'pgpilot-lagpoller' AND wait_event_type = 'Lock'"
	eventually(t, "the lagpoller waits", func() bool {
		var n int
		if err := watcher.QueryRow(t.Context(), "SELECT count(*)"+waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
	from := e.lag(t, "replica2", "before", healthy).Seq
	execute(t, watcher, "SELECT pg_terminate_backend(pid)"+waiting)
	e.lag(t, "replica2", "behind", func(l bus.Lag) bool { return l.Seq > from+3 })
	execute(t, sql, "ROLLBACK")
	wish(t, e, lsn.Position{Timeline: old + 1, LSN: write(t, sql)})
	e.lag(t, "replica1", "answers again", func(l bus.Lag) bool { return healthy(l) && l.InsertLSN > p.LSN })
	for len(e.topology) > 0 {
		if m := <-e.topology; m.Primary != "replica1" || len(m.SwitchPoints) != 1 {
			t.Errorf("meanwhile: primary %q, switch points %+v", m.Primary, m.SwitchPoints)
		}
	}
}

// A replica goes on with the old primary after another was promoted: it shows rows
// that the new primary never had.
func TestAReplicaOfTheOldPrimaryIsNotUsed(t *testing.T) {
	c := labtest.Start(t, 2)
	ctx := t.Context()
	if err := c.WaitCaughtUp(ctx); err != nil {
		t.Fatal(err)
	}
	// Replica 2 gets what replica 1 never does.
	if err := c.Replica(1).Kill(ctx); err != nil {
		t.Fatal(err)
	}
	old := c.Primary()
	write(t, connect(t, old.SuperDSN()))
	if err := c.WaitCaughtUp(ctx); err != nil {
		t.Fatal(err)
	}
	if err := old.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	d := runDir(t)
	lp := start(t, d, configure(c))
	e := listen(t, d)
	e.lag(t, "replica2", "without a primary", healthy)
	if err := c.Replica(1).Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Promote(ctx, 1); err != nil {
		t.Fatal(err)
	}
	l := e.lag(t, "replica2", "diverged", func(l bus.Lag) bool { return !l.Healthy })
	if l.Role != bus.Replica || !strings.Contains(l.Error, "has replayed past the point where timeline 2 began") {
		t.Errorf("told: %+v", l)
	}
	e.shape(t, "diverged", func(m bus.Topology) bool { return m.Primary == "replica1" && !m.Members[2].Healthy })
	m := lp.scrape(t)
	if m["pgpilot_backend_healthy backend=replica2 role=replica"] != 0 || m["pgpilot_backend_diverged backend=replica2"] != 1 {
		t.Errorf("metrics: %v", m)
	}
}

// A replica that is cut off from the primary answers all the same: it is noticed.
func TestACutOffReplicaIsNoticed(t *testing.T) {
	c := labtest.Start(t, 1)
	d := runDir(t)
	lp := start(t, d, configure(c))
	e := listen(t, d)
	e.lag(t, "replica1", "streaming", func(l bus.Lag) bool { return l.Receiving })
	if m := lp.scrape(t); m["pgpilot_backend_receiving backend=replica1"] != 1 {
		t.Errorf("metrics: %v", m)
	}
	su := connect(t, c.Replica(1).SuperDSN())
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if _, err := su.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	l := e.lag(t, "replica1", "cut off", func(l bus.Lag) bool { return l.Healthy && !l.Receiving })
	if l.Role != bus.Replica {
		t.Errorf("told: %+v", l)
	}
	if m := lp.scrape(t); m["pgpilot_backend_receiving backend=replica1"] != 0 || m["pgpilot_backend_healthy backend=replica1 role=replica"] != 1 {
		t.Errorf("metrics: %v", m)
	}
	write(t, connect(t, c.Primary().SuperDSN()))
	e.lag(t, "replica1", "lagging", func(l bus.Lag) bool { return l.LagBytes > 0 })
	if _, err := su.Exec(t.Context(), "ALTER SYSTEM RESET primary_conninfo"); err != nil {
		t.Fatal(err)
	}
	if _, err := su.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	e.lag(t, "replica1", "streaming again", func(l bus.Lag) bool { return l.Receiving && l.LagBytes == 0 })
}
