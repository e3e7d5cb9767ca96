package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// Metrics are the router's. Counters that change with every statement are looked
// up once, here.
type Metrics struct {
	Opened, Closed prometheus.Counter
	// Arrived and Moved count the sessions that have come from other routers and gone to
	// others, MoveFailures those that nobody took when they were offered.
	Arrived, Moved, MoveFailures prometheus.Counter
	MoveTime                     prometheus.Observer
	decisions                    [3][route.Reasons]prometheus.Counter
	fallbacks                    prometheus.Counter
	failovers                    prometheus.Counter
	// Duration is by the role the statement ran on.
	Duration  [3]prometheus.Observer
	Unjudged  prometheus.Counter
	Foreign   prometheus.Counter
	MaybeLost prometheus.Counter
	FenceLost prometheus.Counter
	// PrimaryChanges counts other servers becoming the primary, and doubts about it.
	PrimaryChanges prometheus.Counter
	Probes         prometheus.Counter
	Settled        prometheus.Counter
	ProbeFailures  prometheus.Counter
	// ReplayProbes and ReplayFailures are of replicas being asked how far they have replayed.
	ReplayProbes   prometheus.Counter
	ReplayFailures prometheus.Counter
	ProbeTime      prometheus.Observer
	ProbeSessions  prometheus.Observer
	Nudges         prometheus.Counter
	NudgeFailures  prometheus.Counter
	// Why reads went to the primary for the lack of a replica that had replayed enough,
	// and how often one had after a wait.
	unsettled, late, hopeless, kept, caughtUp prometheus.Counter
	BarrierRounds                             prometheus.Counter
	BarrierTimeouts                           prometheus.Counter
	BarrierTime                               prometheus.Observer

	opened *prometheus.CounterVec
	// routed counts decisions by server.
	routed       *prometheus.CounterVec
	breakerState *prometheus.GaugeVec
	active       prometheus.Gauge
	connections  *prometheus.GaugeVec
	waiters      *prometheus.GaugeVec
	cacheSize    prometheus.Gauge
	cacheBytes   prometheus.Gauge
	cacheHits    prometheus.Counter
	cacheMisses  prometheus.Counter
	hits         uint64
	misses       uint64
	// reads, writes and waits are of calls, told what they were last.
	reads, writes, waits prometheus.Counter
	told                 calls
}

// NewMetrics registers the router's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &Metrics{
		Opened:         counter("pgpilot_sessions_opened_total", "Client sessions taken over."),
		Closed:         counter("pgpilot_sessions_closed_total", "Client sessions ended."),
		Arrived:        counter("pgpilot_router_sessions_arrived_total", "Sessions that have come from another router."),
		Moved:          counter("pgpilot_router_sessions_moved_total", "Sessions that have been given to a listener for another router."),
		MoveFailures:   counter("pgpilot_router_session_moves_failed_total", "Times that a session was offered to a listener and not taken."),
		fallbacks:      counter("pgpilot_fence_fallbacks_total", "Reads sent to the primary because no replica had provably replayed the session's last write."),
		failovers:      counter("pgpilot_read_failovers_total", "Reads run again on another server before any of their answer was shown."),
		Unjudged:       counter("pgpilot_router_unjudged_total", "Statements taken for writes because no classifier answered in time."),
		Foreign:        counter("pgpilot_router_foreign_verdicts_total", "Statements taken for writes because the classifier that answered is of a version that is not understood."),
		FenceLost:      counter("pgpilot_fence_lost_total", "Sessions whose last write a promotion has lost."),
		PrimaryChanges: counter("pgpilot_router_primary_changes_total", "Times another server, or none, became the primary for this router."),
		opened:         prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pgpilot_breaker_opened_total", Help: "Times a server was left alone because of this router's own evidence: refused, lost or silent."}, []string{"backend", "evidence"}),
		routed:         prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pgpilot_backend_decisions_total", Help: "Routing decisions by the server they were for and its role."}, []string{"backend", "target"}),
		breakerState:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pgpilot_breaker_state", Help: "This router's circuit breaker of a server: 0 closed (used), 1 half-open (being probed), 2 open (left alone)."}, []string{"backend"}),
		MaybeLost:      counter("pgpilot_fence_maybe_lost_total", "Writes, and reads in the modes causal and linear, answered by a run of the primary that ended before their position was known."),
		Probes:         counter("pgpilot_fence_probes_total", "Probes of the primary's insert position."),
		Settled:        counter("pgpilot_fence_settled_total", "Fences settled by probes."),
		Nudges:         counter("pgpilot_fence_nudges_total", "Records written so that the primary flushes a position that reads want."),
		NudgeFailures:  counter("pgpilot_fence_nudge_failures_total", "Nudges that the primary refused."),
		ProbeFailures:  counter("pgpilot_fence_probe_failures_total", "Probes of the primary that failed."),
		ReplayProbes:   counter("pgpilot_fence_replay_probes_total", "Times that a replica was asked how far it has replayed, because reads wanted a position."),
		ReplayFailures: counter("pgpilot_fence_replay_probe_failures_total", "Connections for that which could not be made or have failed; lagpollers are asked instead."),
		cacheHits:      counter("pgpilot_router_verdict_cache_hits_total", "Verdicts found in the router's cache."),
		cacheMisses:    counter("pgpilot_router_verdict_cache_misses_total", "Verdicts asked of a classifier."),
		active:         prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgpilot_sessions_active", Help: "Client sessions now."}),
		cacheSize:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgpilot_router_verdict_cache_entries", Help: "Verdicts kept."}),
		cacheBytes:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgpilot_router_verdict_cache_bytes", Help: "Memory of the verdicts kept, estimated."}),
		connections:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pgpilot_pool_connections", Help: "Server connections by state: idle, active (lent to a session, or being reset), connecting, closing (given up, and not closed by the server yet; counted where backends.max_connections is set)."}, []string{"backend", "state"}),
		waiters:        prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pgpilot_pool_waiters", Help: "Sessions waiting for a server connection."}, []string{"backend"}),
	}
	whyPrimary := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pgpilot_fence_fallback_reasons_total", Help: "Fenced reads sent to the primary: the position was not known in time (unsettled), no replica reached it in time (late) or was expected to (hopeless), or not the one that the session keeps (kept)."}, []string{"reason"})
	reg.MustRegister(whyPrimary)
	m.unsettled, m.late = whyPrimary.WithLabelValues("unsettled"), whyPrimary.WithLabelValues("late")
	m.hopeless, m.kept = whyPrimary.WithLabelValues("hopeless"), whyPrimary.WithLabelValues("kept")
	m.caughtUp = counter("pgpilot_fence_waits_met_total", "Reads served by a replica after they had waited for it to catch up.")
	loopCalls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pgpilot_router_calls_total", Help: "Times that the loop has read from a socket, written to one, and waited for any to be ready."}, []string{"call"})
	reg.MustRegister(loopCalls)
	m.reads, m.writes, m.waits = loopCalls.WithLabelValues("read"), loopCalls.WithLabelValues("write"), loopCalls.WithLabelValues("wait")
	m.BarrierRounds = counter("pgpilot_fence_barrier_rounds_total", "Times the primary was asked whether it shows what replicas have shown.")
	m.BarrierTimeouts = counter("pgpilot_fence_barrier_timeouts_total", "Statements refused because the primary did not show within fencing.wait_primary what a replica may have shown.")
	moveTime := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pgpilot_router_session_move_seconds", Help: "Time from taking a session out of the loop to a listener's acknowledgement.", Buckets: prometheus.ExponentialBuckets(100e-6, 2, 14)})
	reg.MustRegister(moveTime)
	m.MoveTime = moveTime
	probeTime := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pgpilot_fence_probe_seconds", Help: "Time of one probe.", Buckets: prometheus.ExponentialBuckets(50e-6, 2, 14)})
	probeSessions := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pgpilot_fence_probe_sessions", Help: "Sessions settled by one probe.", Buckets: prometheus.ExponentialBuckets(1, 2, 12)})
	barrierTime := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pgpilot_fence_barrier_seconds", Help: "Time for which a use of the primary waited until that showed what replicas have shown.", Buckets: prometheus.ExponentialBuckets(50e-6, 2, 17)})
	m.ProbeTime, m.ProbeSessions, m.BarrierTime = probeTime, probeSessions, barrierTime
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pgpilot_routing_decisions_total", Help: "Routing decisions by target role and reason."}, []string{"target", "reason"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pgpilot_query_duration_seconds", Help: "Time from the grant of a connection to the end of the answer, by target role.", Buckets: prometheus.ExponentialBuckets(50e-6, 2, 18)}, []string{"target"})
	reg.MustRegister(m.opened, m.routed, m.breakerState, m.active, m.cacheSize, m.cacheBytes, m.connections, m.waiters, probeTime, probeSessions, barrierTime, decisions, duration)
	for role := range m.decisions {
		for why := range m.decisions[role] {
			m.decisions[role][why] = decisions.WithLabelValues(route.Role(role).String(), route.Reason(why).String())
		}
		m.Duration[role] = duration.WithLabelValues(route.Role(role).String())
	}
	return m
}

// decision counts one for a server.
func (m *Metrics) decision(on *serverSite, target route.Role, why route.Reason) {
	if on.decisions[target] == nil {
		on.decisions[target] = m.routed.WithLabelValues(on.name, target.String())
	}
	on.decisions[target].Inc()
	m.decisions[target][why].Inc()
	if why == route.ReasonFenceFallback {
		m.fallbacks.Inc()
	}
}

// gauges brings what is not counted as it happens up to date.
func (m *Metrics) gauges(e *Engine) {
	m.active.Set(float64(len(e.clients)))
	m.cacheSize.Set(float64(e.cache.Len()))
	m.cacheBytes.Set(float64(e.cache.Bytes()))
	m.cacheHits.Add(float64(e.cache.Hits - m.hits))
	m.cacheMisses.Add(float64(e.cache.Misses - m.misses))
	m.hits, m.misses = e.cache.Hits, e.cache.Misses
	m.reads.Add(float64(e.calls.reads - m.told.reads))
	m.writes.Add(float64(e.calls.writes - m.told.writes))
	m.waits.Add(float64(e.calls.waits - m.told.waits))
	m.told = e.calls
	type counts struct{ idle, lent, connecting, waiters int }
	sums := make([]counts, len(e.servers))
	for k, p := range e.pools {
		idle, lent, connecting := p.Counts()
		s := &sums[k.Backend]
		s.idle += idle
		s.lent += lent
		s.connecting += connecting
		s.waiters += p.Waiters()
	}
	for i, s := range sums {
		if e.tracker.Free(i) {
			continue
		}
		name := e.servers[i].name
		m.breakerState.WithLabelValues(name).Set(float64(e.tracker.Breaker(i)))
		m.connections.WithLabelValues(name, "idle").Set(float64(s.idle))
		m.connections.WithLabelValues(name, "active").Set(float64(s.lent))
		m.connections.WithLabelValues(name, "connecting").Set(float64(s.connecting))
		m.connections.WithLabelValues(name, "closing").Set(float64(e.servers[i].parting))
		m.waiters.WithLabelValues(name).Set(float64(s.waiters))
	}
}

// forget drops what is told of a server that is gone.
func (m *Metrics) forget(server string) {
	of := prometheus.Labels{"backend": server}
	for _, v := range []*prometheus.GaugeVec{m.connections, m.waiters, m.breakerState} {
		v.DeletePartialMatch(of)
	}
	m.opened.DeletePartialMatch(of)
	m.routed.DeletePartialMatch(of)
}
