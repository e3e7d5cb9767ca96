package faults

import (
	"context"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/consistency"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// fault is one way to hurt the cluster or pgpilot. inject returns when the hurt is
// over; the sessions need not have recovered.
type fault struct {
	name   string
	inject func(*run)
	// slow takes many seconds: long runs only.
	slow bool
}

// everyFault is all that there is.
func everyFault() []fault {
	return []fault{
		{name: "replay paused", inject: (*run).pauseReplay},
		{name: "replay delayed", inject: (*run).delayReplay},
		{name: "replica killed far from its restartpoint", inject: (*run).killReplica, slow: true},
		{name: "replica restarted", inject: (*run).restartReplica},
		{name: "backend of a replica killed", inject: (*run).killBackendOfReplica},
		{name: "backend of the primary killed", inject: (*run).killBackendOfPrimary},
		{name: "replica rebuilt from an older backup", inject: (*run).rebuildReplica, slow: true},
		{name: "clock of a replica jumps", inject: (*run).jumpClock},
		{name: "network to a server cut", inject: (*run).cutNetwork},
		{name: "network to a server silent", inject: (*run).silenceNetwork, slow: true},
		{name: "network to a server slow", inject: (*run).slowNetwork},
		{name: "lagpoller killed", inject: (*run).killLagpoller},
		{name: "bus cut", inject: (*run).cutBus, slow: true},
		{name: "classifier killed", inject: (*run).killClassifier},
		{name: "router killed", inject: (*run).killRouter},
		{name: "router restarted", inject: (*run).restartRouter, slow: true},
		{name: "primary promoted away", inject: (*run).switchOver, slow: true},
		{name: "primary crashed and restarted", inject: (*run).crashPrimary},
		{name: "primary lost, a replica promoted", inject: (*run).failOver, slow: true},
		{name: "synchronous standby hangs", inject: (*run).hangSynchronousStandby},
		{name: "synchronous standby does not apply", inject: (*run).stallRemoteApply},
	}
}

// quickFaults are those for a short run.
func quickFaults() []fault {
	var quick []fault
	for _, f := range everyFault() {
		if !f.slow {
			quick = append(quick, f)
		}
	}
	return quick
}

// replica chooses one.
func (r *run) replica() *server {
	for {
		s := r.servers[r.r.IntN(len(r.servers))]
		if s.m != r.cluster.Primary() {
			return s
		}
	}
}

func (r *run) otherReplica(than *server) *server {
	for _, s := range r.servers {
		if s != than && s.m != r.cluster.Primary() {
			return s
		}
	}
	return nil
}

func (r *run) primaryServer() *server { return r.servers[r.cluster.Primary().Number] }

func (r *run) hold(from, to time.Duration) {
	r.pause(from + time.Duration(r.r.Int64N(int64(to-from))))
}

func (r *run) pauseReplay() {
	ms := []*lab.Member{r.replica().m}
	if r.r.IntN(2) == 0 {
		ms = append(ms, r.otherReplica(r.servers[ms[0].Number]).m)
	}
	for _, m := range ms {
		r.ok(m.PauseReplay(r.ctx()))
	}
	r.hold(300*time.Millisecond, 2*time.Second)
	for _, m := range ms {
		r.ok(m.ResumeReplay(r.ctx()))
	}
}

// pauseLong has every replica show what is older than the bound.
func (r *run) pauseLong() {
	for _, m := range r.cluster.Replicas() {
		r.ok(m.PauseReplay(r.ctx()))
	}
	r.pause(2 * bound)
	for _, m := range r.cluster.Replicas() {
		r.ok(m.ResumeReplay(r.ctx()))
	}
}

// delayReplay has a replica stand still right before every commit record.
func (r *run) delayReplay() {
	m := r.replica().m
	r.must(m, "ALTER SYSTEM SET recovery_min_apply_delay = '50ms'", "SELECT pg_reload_conf()")
	r.hold(time.Second, 2*time.Second)
	r.must(m, "ALTER SYSTEM RESET recovery_min_apply_delay", "SELECT pg_reload_conf()")
}

// restarting encloses what ends a server and starts it again.
func (r *run) restarting(s *server, f func()) {
	s.state.Add(1)
	defer s.state.Add(1)
	f()
}

// killReplica stops a replica in immediate mode when it has much to replay again, so
// that it comes back with older rows than it has shown, and has it stand still there
// until everybody has heard that it is back.
func (r *run) killReplica() {
	s := r.replica()
	r.must(r.cluster.Primary(), "CHECKPOINT")
	r.ok(r.cluster.WaitCaughtUp(r.ctx()))
	r.must(s.m, "CHECKPOINT")
	r.must(r.cluster.Primary(), "SELECT count(pg_logical_emit_message(false, 'bulk', repeat('x', 1000000))) FROM generate_series(1, 200)")
	r.ok(r.cluster.WaitCaughtUp(r.ctx()))
	r.hold(500*time.Millisecond, time.Second)                       // it is known to be where it is
	r.must(s.m, "ALTER SYSTEM SET recovery_min_apply_delay = '1h'") // in force from the next start on
	r.restarting(s, func() {
		r.ok(s.m.Kill(r.ctx()))
		r.ok(s.m.Start(r.ctx()))
	})
	r.t.Logf("%s is back with %d writes, %s has %d", s.m.Name, r.written(s), r.cluster.Primary().Name, r.written(r.primaryServer()))
	r.hold(2*time.Second, 4*time.Second)
	r.must(s.m, "ALTER SYSTEM RESET recovery_min_apply_delay", "SELECT pg_reload_conf()")
}

// written counts the writes that a server shows.
func (r *run) written(s *server) (n int64) {
	ctx := r.ctx()
	c, err := pgx.Connect(ctx, s.m.SuperDSN())
	r.ok(err)
	defer c.Close(context.WithoutCancel(ctx))
	r.ok(c.QueryRow(ctx, "SELECT sum(n)::bigint FROM kv").Scan(&n))
	return n
}

func (r *run) restartReplica() {
	s := r.replica()
	r.restarting(s, func() {
		if r.r.IntN(2) == 0 {
			r.ok(s.m.Stop(r.ctx()))
		} else {
			r.ok(s.m.Kill(r.ctx()))
		}
		r.hold(0, time.Second)
		r.ok(s.m.Start(r.ctx()))
	})
}

// killBackend kills one backend with SIGKILL, upon which its server ends every session
// and recovers under the same postmaster.
func (r *run) killBackend(s *server) {
	ctx := r.ctx()
	c, err := pgx.Connect(ctx, s.m.SuperDSN())
	r.ok(err)
	defer c.Close(context.WithoutCancel(ctx))
	var pid int
	r.ok(c.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid))
	r.restarting(s, func() {
		r.ok(s.m.KillBackend(ctx, pid))
		r.ok(s.m.WaitReady(ctx))
	})
}

func (r *run) killBackendOfReplica() { r.killBackend(r.replica()) }

// killBackendOfPrimary loses commits that had not reached the disk.
func (r *run) killBackendOfPrimary() { r.losing(func() { r.killBackend(r.primaryServer()) }) }

// losing notes that acknowledged writes may be lost while f runs.
func (r *run) losing(f func()) {
	l := consistency.Loss{From: r.now()}
	f()
	l.Until = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = append(r.losses, l)
}

func (r *run) crashPrimary() {
	s := r.primaryServer()
	r.losing(func() {
		r.restarting(s, func() {
			r.ok(s.m.Kill(r.ctx()))
			r.ok(s.m.Start(r.ctx()))
		})
	})
}

func (r *run) rebuildReplica() {
	s := r.replica()
	r.ok(r.cluster.TakeBackup(r.ctx()))
	r.hold(2*time.Second, 4*time.Second)
	r.restarting(s, func() { r.ok(r.cluster.Rebuild(r.ctx(), s.m.Number)) })
}

// killService ends an instance at once and starts it again after a while.
func (r *run) killService(service string, number int, from, to time.Duration) {
	p := r.pilot.Service(service, number)
	r.ok(p.Kill(r.ctx()))
	r.hold(from, to)
	r.ok(p.Start(r.ctx()))
}

func (r *run) killLagpoller()  { r.killService(rundir.Lagpoller, 1, 0, 1500*time.Millisecond) }
func (r *run) killClassifier() { r.killService(rundir.Classifier, 1, 0, time.Second) }
func (r *run) killRouter() {
	r.killService(rundir.Router, 1+r.r.IntN(routers), 0, 500*time.Millisecond)
}

func (r *run) restartRouter() {
	r.ok(r.pilot.Service(rundir.Router, 1+r.r.IntN(routers)).Restart(r.ctx()))
}

// cutBus stops the process that runs the bus without ending its connections, for
// longer than health.stale_after: everybody hears nothing.
func (r *run) cutBus() {
	p := r.pilot.Service(rundir.Lagpoller, 1)
	r.ok(p.Signal(syscall.SIGSTOP))
	r.hold(3500*time.Millisecond, 5*time.Second)
	r.ok(p.Signal(syscall.SIGCONT))
}

// switchOver moves the primary to a replica that has everything, and brings the former
// one back as a replica.
func (r *run) switchOver() {
	former, next := r.primaryServer(), r.replica()
	former.state.Add(1)
	// A fast shutdown sends everything to the replicas that are connected.
	r.ok(r.cluster.WaitCaughtUp(r.ctx()))
	r.ok(former.m.Stop(r.ctx()))
	if r.received(next) < r.received(r.otherReplica(next)) {
		next = r.otherReplica(next)
	}
	r.promote(next)
	r.ok(r.cluster.Rebuild(r.ctx(), former.m.Number))
	former.state.Add(1)
}

// failOver loses the primary with all that it had not sent.
func (r *run) failOver() {
	former, next := r.primaryServer(), r.replica()
	former.state.Add(1)
	r.losing(func() {
		r.ok(former.m.Kill(r.ctx()))
		if r.received(next) < r.received(r.otherReplica(next)) {
			next = r.otherReplica(next)
		}
		r.promote(next)
	})
	r.ok(r.cluster.Rebuild(r.ctx(), former.m.Number))
	former.state.Add(1)
}

// received gives how far a replica has got.
func (r *run) received(s *server) int64 {
	ctx := r.ctx()
	c, err := pgx.Connect(ctx, s.m.SuperDSN())
	r.ok(err)
	defer c.Close(context.WithoutCancel(ctx))
	var n int64
	r.ok(c.QueryRow(ctx, "SELECT (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn)::bigint").Scan(&n))
	return n
}

func (r *run) promote(s *server) {
	r.ok(r.cluster.Promote(r.ctx(), s.m.Number))
	r.primary.Store(int32(s.m.Number))
	// Settings of the cluster that the new primary has not got from a backup.
	r.must(s.m, "ALTER SYSTEM SET wal_keep_size = '8GB'", "SELECT pg_reload_conf()")
}

// hangSynchronousStandby stops the process that receives WAL on a synchronous standby:
// commits wait.
func (r *run) hangSynchronousStandby() {
	s := r.replica()
	ctx := r.ctx()
	c, err := pgx.Connect(ctx, s.m.SuperDSN())
	r.ok(err)
	defer c.Close(context.WithoutCancel(ctx))
	var pid int
	r.ok(c.QueryRow(ctx, "SELECT coalesce((SELECT pid FROM pg_stat_wal_receiver), 0)").Scan(&pid))
	if pid == 0 {
		return // it is not connected at this moment, so nobody could wait for it
	}
	r.synchronous(s, "on")
	r.ok(syscall.Kill(pid, syscall.SIGSTOP))
	r.hold(500*time.Millisecond, 2*time.Second)
	r.ok(syscall.Kill(pid, syscall.SIGCONT))
	r.asynchronous()
}

// stallRemoteApply has commits wait until a standby shows them, which it does not:
// the standby shows them before the primary does.
func (r *run) stallRemoteApply() {
	s := r.replica()
	r.synchronous(s, "remote_apply")
	r.ok(s.m.PauseReplay(r.ctx()))
	r.hold(300*time.Millisecond, time.Second)
	r.ok(s.m.ResumeReplay(r.ctx()))
	r.hold(300*time.Millisecond, time.Second)
	r.asynchronous()
}

func (r *run) synchronous(s *server, level string) {
	r.must(r.cluster.Primary(), "ALTER SYSTEM SET synchronous_commit = "+level,
		"ALTER SYSTEM SET synchronous_standby_names = "+strconv.Quote(s.m.Name), "SELECT pg_reload_conf()")
}

func (r *run) asynchronous() {
	r.must(r.cluster.Primary(), "ALTER SYSTEM RESET synchronous_commit", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
}
