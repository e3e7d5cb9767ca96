package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// What does no harm to the servers shares one cluster.
func TestWatching(t *testing.T) {
	c := labtest.Start(t, 2)
	primary := connect(t, c.Primary().SuperDSN())

	t.Run("every backend is told about", func(t *testing.T) {
		d := runDir(t)
		start(t, d, configure(c))
		e := listen(t, d)
		floor := write(t, primary)
		var timeline lsn.Timeline
		if err := primary.QueryRow(t.Context(), "SELECT timeline_id FROM pg_control_checkpoint()").Scan(&timeline); err != nil {
			t.Fatal(err)
		}
		p := e.lag(t, "primary", "a position after the write", func(l bus.Lag) bool { return healthy(l) && l.InsertLSN >= floor })
		if p.Role != bus.Primary || p.LagBytes != 0 || p.LagMillis != 0 || p.FlushLSN == 0 || p.ReplayLSN != 0 || p.Clock == "" || p.AskedBoot == 0 || p.ServerVersion < 150000 ||
			p.Geometry != lsn.DefaultGeometry || p.Incarnation.Timeline != timeline {
			t.Errorf("primary: %+v", p)
		}
		for _, m := range c.Replicas() {
			r := e.lag(t, m.Name, "the write replayed", func(l bus.Lag) bool { return caughtUp(l) && l.ReplayLSN >= floor })
			if r.Role != bus.Replica || r.ReceiveLSN < r.ReplayLSN || r.InsertLSN != 0 || r.Geometry != lsn.DefaultGeometry ||
				r.Incarnation.SystemID != p.Incarnation.SystemID || r.Incarnation.Timeline != timeline {
				t.Errorf("%s: %+v", m.Name, r)
			}
			sql := connect(t, m.SuperDSN())
			var postmaster, children int64
			if err := sql.QueryRow(t.Context(), `SELECT (extract(epoch FROM pg_postmaster_start_time())*1000000)::bigint,
				(extract(epoch FROM (SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'))*1000000)::bigint`).Scan(&postmaster, &children); err != nil {
				t.Fatal(err)
			}
			if r.Incarnation.Postmaster != postmaster || r.Incarnation.Children != children {
				t.Errorf("%s started %d and %d, told %+v", m.Name, postmaster, children, r.Incarnation)
			}
		}
		topo := e.shape(t, "two replicas and a primary", func(m bus.Topology) bool { return m.Primary == "primary" })
		if len(topo.Members) != 3 || topo.Members[1].Role != bus.Replica || topo.Members[0].Incarnation != p.Incarnation || len(topo.SwitchPoints) != 0 {
			t.Errorf("topology: %+v", topo)
		}
	})

	t.Run("lag grows while replay is paused", func(t *testing.T) {
		d := runDir(t)
		lp := start(t, d, configure(c))
		e := listen(t, d)
		replica := c.Replica(1)
		e.lag(t, replica.Name, "in step", caughtUp)
		if err := replica.PauseReplay(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, primary)
		first := e.lag(t, replica.Name, "behind", func(l bus.Lag) bool { return l.LagBytes > 0 && l.LagMillis >= 0 })
		write(t, primary)
		later := e.lag(t, replica.Name, "further behind", func(l bus.Lag) bool { return l.LagBytes >= first.LagBytes+100000 && l.LagMillis > first.LagMillis })
		if later.ReplayLSN != first.ReplayLSN || later.ReceiveLSN <= first.ReplayLSN {
			t.Errorf("replay is paused, receiving is not: %+v", later)
		}
		m := lp.scrape(t)
		if m["pgpilot_backend_lag_bytes backend=replica1"] < 100000 || m["pgpilot_backend_lag_seconds backend=replica1"] < first.LagMillis/1000 ||
			m["pgpilot_backend_healthy backend=replica1 role=replica"] != 1 || m["pgpilot_polls_total backend=replica1"] == 0 {
			t.Errorf("metrics: %v", m)
		}
		if err := replica.ResumeReplay(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.lag(t, replica.Name, "in step again", caughtUp)
	})

	// The interval is so long that only a want can be the reason for news.
	t.Run("a want wakes the pollers", func(t *testing.T) {
		d := runDir(t)
		cfg := configure(c)
		cfg.Health.Interval = config.Duration(time.Hour)
		lp := start(t, d, cfg)
		e := listen(t, d)
		snap := snapshot(t, e)
		for range 20 {
			p := lsn.Position{Timeline: snap.Backends[0].Incarnation.Timeline, LSN: write(t, primary)}
			stop := keepWishing(t, e, p)
			for _, m := range c.Replicas() {
				l := e.lag(t, m.Name, "the wanted position", func(l bus.Lag) bool { return l.ReplayLSN >= p.LSN })
				if !healthy(l) || l.Role != bus.Replica || l.Incarnation != snap.Backends[m.Number].Incarnation || l.ReceiveLSN == 0 {
					t.Errorf("news in a burst: %+v", l)
				}
			}
			stop()
		}
		if m := lp.scrape(t); m["pgpilot_poll_bursts_total backend=replica2"] < 20 || m["pgpilot_polls_total backend=replica2"] != 1 {
			t.Errorf("metrics: %v", m)
		}
	})

	t.Run("a want is answered once replay reaches it", func(t *testing.T) {
		d := runDir(t)
		cfg := configure(c)
		cfg.Health.Interval = config.Duration(time.Hour)
		start(t, d, cfg)
		e := listen(t, d)
		replica := c.Replica(2)
		if err := replica.PauseReplay(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := lsn.Position{Timeline: snapshot(t, e).Backends[0].Incarnation.Timeline, LSN: write(t, primary)}
		defer keepWishing(t, e, p)()
		e.lag(t, "replica1", "the replica that is not paused", func(l bus.Lag) bool { return l.ReplayLSN >= p.LSN })
		if err := replica.ResumeReplay(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.lag(t, replica.Name, "the replica that was paused", func(l bus.Lag) bool { return l.ReplayLSN >= p.LSN })
	})

	t.Run("who comes late asks for a snapshot", func(t *testing.T) {
		d := runDir(t)
		cfg := configure(c)
		cfg.Health.Interval = config.Duration(time.Hour)
		start(t, d, cfg)
		e := listen(t, d)
		snap := snapshot(t, e)
		if len(snap.Backends) != 3 || !healthy(snap.Backends[0]) || snap.Backends[0].Role != bus.Primary || !healthy(snap.Backends[2]) || snap.Backends[2].ReplayLSN == 0 {
			t.Errorf("lag snapshot: %+v", snap)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		topo, err := bus.Request[bus.Topology](ctx, e.nc, bus.SubjectTopologySnapshot)
		if err != nil || topo.Primary != "primary" || len(topo.Members) != 3 {
			t.Errorf("topology snapshot: %+v, %v", topo, err)
		}
	})

	t.Run("a restart of the lagpoller is survived", func(t *testing.T) {
		d := runDir(t)
		lp := start(t, d, configure(c))
		e := listen(t, d)
		before := e.lag(t, "replica1", "before", caughtUp)
		topo := e.shape(t, "before", func(m bus.Topology) bool { return m.Primary == "primary" })
		lp.stop()
		floor := write(t, primary)
		start(t, d, configure(c))
		after := e.lag(t, "replica1", "after", func(l bus.Lag) bool { return caughtUp(l) && l.ReplayLSN >= floor })
		if after.Seq <= before.Seq || after.Incarnation != before.Incarnation {
			t.Errorf("before %+v\nafter %+v", before, after)
		}
		e.shape(t, "after", func(m bus.Topology) bool { return m.Primary == "primary" && m.Generation > topo.Generation })
	})

	t.Run("backends come and go with the configuration", func(t *testing.T) {
		d := runDir(t)
		all := configure(c)
		less := configure(c)
		less.Replicas = less.Replicas[:1]
		less.Health.Interval = config.Duration(time.Hour)
		lp := start(t, d, less)
		e := listen(t, d)
		if m := lp.scrape(t); m["pgpilot_polls_total backend=primary"] != 1 {
			t.Errorf("metrics: %v", m)
		}
		lp.reloads <- all
		e.shape(t, "one more", func(m bus.Topology) bool { return len(m.Members) == 3 })
		e.lag(t, "replica2", "the new one", caughtUp)
		e.lag(t, "primary", "the shorter interval is in force", func(l bus.Lag) bool { return lp.scrape(t)["pgpilot_polls_total backend=primary"] >= 4 })
		lp.reloads <- less
		e.shape(t, "one less", func(m bus.Topology) bool { return len(m.Members) == 2 })
		for name := range lp.scrape(t) {
			if strings.Contains(name, "replica2") {
				t.Errorf("metric %s of a backend that is gone", name)
			}
		}
	})

	t.Run("a full server is not an ill one", func(t *testing.T) {
		d := runDir(t)
		cfg := configure(c)
		cfg.Health.Interval = config.Duration(200 * time.Millisecond) // time to take the place it leaves
		cfg.Health.FailureThreshold = 3
		start(t, d, cfg)
		e := listen(t, d)
		e.lag(t, "replica2", "before", caughtUp)
		replica := c.Replica(2)
		occupied := occupy(t, replica.SuperDSN())
		sql := connect(t, replica.SuperDSN())
		for { // until the place is taken before the lagpoller is back
			execute(t, sql, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'pgpilot-lagpoller'")
			if more := occupy(t, replica.SuperDSN()); len(more) > 0 {
				occupied = append(occupied, more...)
				break
			}
		}
		refusals := 0
		e.lag(t, "replica2", "more refusals than make it ill", func(l bus.Lag) bool {
			if !l.Healthy {
				t.Fatalf("a full server is told to be ill: %+v", l)
			}
			if strings.Contains(l.Error, "53300") {
				refusals++
			}
			return refusals == 2*cfg.Health.FailureThreshold
		})
		for _, c := range occupied {
			c.Close(t.Context())
		}
		e.lag(t, "replica2", "after", caughtUp)
	})
}

func snapshot(t *testing.T, e *ear) bus.LagSnapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := bus.Request[bus.LagSnapshot](ctx, e.nc, bus.SubjectLagSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wish publishes a router's want.
func wish(t *testing.T, e *ear, p lsn.Position) {
	t.Helper()
	if err := bus.Publish(e.nc, bus.SubjectFenceWant, bus.Want{V: bus.Version, Router: "r1", Position: p, At: time.Now()}); err != nil {
		t.Error(err)
	}
}

// keepWishing publishes a want again and again until stop is called, as a router that goes on
// waiting does: it expires after a second.
func keepWishing(t *testing.T, e *ear, p lsn.Position) (stop func()) {
	t.Helper()
	wish(t, e, p)
	quit := make(chan struct{})
	var again sync.WaitGroup
	again.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				wish(t, e, p)
			}
		}
	})
	stop = sync.OnceFunc(func() { close(quit); again.Wait() })
	t.Cleanup(stop) // a failed test must not leave it at it
	return stop
}
