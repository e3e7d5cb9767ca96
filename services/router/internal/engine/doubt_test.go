package engine

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// leads is the news that a server is the primary on a timeline; claimants are others that
// say so: with one, nobody is it.
func leads(name string, generation uint64, timeline lsn.Timeline, claimants ...string) bus.Topology {
	m := bus.Topology{V: bus.Version, Generation: generation, Publisher: "1", Primary: name}
	for _, n := range append([]string{name}, claimants...) {
		m.Members = append(m.Members, bus.Member{Backend: n, Role: bus.Primary, Healthy: true, Incarnation: lsn.Incarnation{SystemID: 7, Timeline: timeline}})
	}
	if len(claimants) > 0 {
		m.Primary = ""
	}
	return m
}

// A session that comes from a router that has heard of a promotion does nothing on the former
// primary, which has not what the session has written, and where it must not write.
func TestASessionThatKnowsOfAPromotion(t *testing.T) {
	for name, of := range map[string]handoff.Fence{
		"by its fence":               {Position: lsn.Position{Timeline: 2, LSN: 200}},
		"by who has answered it":     {Position: lsn.Position{Timeline: 1, LSN: 100}, Dirty: true, Backend: "promoted", Writer: lsn.Incarnation{SystemID: 7, Timeline: 2, Postmaster: 1, Children: 1}},
		"by what it has read so far": {Seen: &handoff.Seen{Backend: "promoted", Server: lsn.Incarnation{SystemID: 7, Timeline: 2, Postmaster: 1, Children: 1}, Unsettled: true}},
	} {
		for _, text := range []string{"SELECT 1", "UPDATE nothing SET a = 1"} {
			t.Run(name+", "+text, func(t *testing.T) {
				e := runEngine(t, elsewhere("promoted"), func(*Options) {})
				e.Topology(leads("primary", 1, 1))
				_, ours := handofftest.Ends(t)
				rec := &handoff.Record{
					Session: "s", User: lab.User, Database: lab.Database, Protocol: 3 << 16, Cancel: handoff.CancelKey{PID: 7, Secret: []byte{1, 2, 3, 4}},
					Live: &handoff.Live{Status: "I", Fence: of}, Unread: wire.AppendQuery(nil, text),
				}
				onLoop(t, e, func() bool { e.commence(&arrival{rec: rec, fds: []int{ours}}); return true })
				waits := func() (at int, waiting bool) {
					c := e.clients["s"]
					if c.wait.in != nil {
						return c.wait.in.key.Backend, true
					}
					return route.None, slices.Contains(e.stranded, c)
				}
				awaitOnLoop(t, e, "it waits", func() bool { _, waiting := waits(); return waiting })
				if at := onLoop(t, e, func() int { at, _ := waits(); return at }); at != route.None {
					t.Errorf("it waits for server %d, which has been superseded", at)
				}
				e.Topology(leads("promoted", 2, 2))
				awaitOnLoop(t, e, "it waits for the promoted server", func() bool { at, _ := waits(); return at == 1 })
			})
		}
	}
}

// It is so, too, where nobody tells who the primary is: a router that has just started takes the
// configured one for it, and asks that one itself.
func TestASessionThatKnowsOfAPromotionWithoutNews(t *testing.T) {
	cluster := labtest.Start(t, 1)
	for name, timeline := range map[string]lsn.Timeline{"it has been promoted": 1, "another one was promoted": 2} {
		for what, of := range map[string]handoff.Fence{
			"by its fence":           {Position: lsn.Position{Timeline: timeline, LSN: 200}},
			"by who has answered it": {Dirty: true, Backend: "promoted", Writer: lsn.Incarnation{SystemID: 7, Timeline: timeline, Postmaster: 1, Children: 1}},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				e := startEngine(t, cluster, func(c *config.Config) { c.Failover.Wait = config.Duration(time.Second) })
				theirs, ours := handofftest.Ends(t)
				rec := &handoff.Record{
					Session: "s", User: lab.User, Database: lab.Database, Protocol: 3 << 16, Cancel: handoff.CancelKey{PID: 7, Secret: []byte{1, 2, 3, 4}},
					Live: &handoff.Live{Status: "I", Fence: of}, Unread: wire.AppendQuery(nil, "INSERT INTO nothing VALUES (1)"),
				}
				onLoop(t, e, func() bool { e.commence(&arrival{rec: rec, fds: []int{ours}}); return true })
				p := &peer{t: t, fd: theirs, buf: make([]byte, 64<<10)}
				if timeline == 1 {
					p.untilReady()
					return
				}
				if said := p.end(); !strings.Contains(said, "C57P03\x00") || strings.Contains(said, "INSERT 0 1") {
					t.Errorf("it ends with %q", said)
				}
			})
		}
	}
}

// Where that news never comes, because the servers have gone back to a former primary, the session
// ends: nothing that it wants of the primary could ever run again.
func TestASessionThatKnowsOfAPromotionThatNobodyElseDoes(t *testing.T) {
	cfg := elsewhere()
	cfg.Failover.Wait = 0
	e := runEngine(t, cfg, func(*Options) {})
	e.Topology(leads("primary", 1, 1))
	theirs, ours := handofftest.Ends(t)
	rec := &handoff.Record{
		Session: "s", User: lab.User, Database: lab.Database, Protocol: 3 << 16, Cancel: handoff.CancelKey{PID: 7, Secret: []byte{1, 2, 3, 4}},
		Live: &handoff.Live{Status: "I", Fence: handoff.Fence{Position: lsn.Position{Timeline: 2, LSN: 200}}}, Unread: wire.AppendQuery(nil, "UPDATE nothing SET a = 1"),
	}
	onLoop(t, e, func() bool { e.commence(&arrival{rec: rec, fds: []int{ours}}); return true })
	var said []byte
	for buf := make([]byte, 4096); ; {
		n, err := unix.Read(theirs, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		said = append(said, buf[:n]...)
	}
	if !bytes.Contains(said, []byte("SFATAL\x00")) || !bytes.Contains(said, []byte("C57P03\x00")) {
		t.Errorf("it ends with %q", said)
	}
}

// While it is not certain who the primary is, a session begins nothing on the connection that
// it is bound to. A transaction that is open goes on.
func TestNothingIsBegunInDoubt(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1))
	primary := onLoop(t, e, func() string { return e.servers[0].name })
	news := uint64(0)
	becomes := func(doubt ...string) {
		news++
		e.Topology(leads(primary, news, 1, doubt...))
		onLoop(t, e, func() bool { return true }) // it has heard
	}
	becomes()
	bound, open := joinSession(t, e, "bound"), joinSession(t, e, "open")
	bound.exchange(wire.AppendQuery(nil, "LISTEN a"))
	open.exchange(wire.AppendQuery(nil, "BEGIN"))
	open.exchange(wire.AppendQuery(nil, "UPDATE nothing SET a = 1"))
	becomes("other")
	open.exchange(wire.AppendQuery(nil, "UPDATE nothing SET a = 2"))
	if _, err := unix.Write(bound.fd, wire.AppendQuery(nil, "UPDATE nothing SET a = 3")); err != nil {
		t.Fatal(err)
	}
	c := onLoop(t, e, func() *client { return e.clients["bound"] })
	awaitOnLoop(t, e, "it waits for a primary", func() bool { return slices.Contains(e.stranded, c) })
	becomes()
	bound.untilReady()
	open.exchange(wire.AppendQuery(nil, "COMMIT"))
}

// A server that says nothing to what prepares the probe is given up, as one that does not
// answer a probe: the fences of all sessions wait for it.
func TestAProbeThatIsNotPrepared(t *testing.T) {
	e := runEngine(t, elsewhere(), func(*Options) {})
	_, ours := handofftest.Ends(t)
	p := &e.probe
	if open := onLoop(t, e, func() bool {
		p.connected(e.servers[0], 0, &upstream.Made{FD: ours, Run: lsn.Incarnation{Postmaster: 1, Children: 1}})
		p.start()
		return p.open
	}); !open {
		t.Fatal("the server is not waited for at all")
	}
	if open := onLoop(t, e, func() bool {
		p.started = p.started.Add(-2 * probeTimeout)
		p.start()
		return p.open
	}); open {
		t.Error("the server is still waited for")
	}
}

// Who waits for the barrier waits no longer than a server that has become the primary needs
// for the answer that it owes as a replica.
func TestTheBarrierAfterAPromotion(t *testing.T) {
	e := runEngine(t, elsewhere("promoted"), func(*Options) {})
	e.Topology(leads("primary", 1, 1))
	theirs, ours := handofftest.Ends(t)
	b := &e.barrier
	run := lsn.Incarnation{Postmaster: 1, Children: 1}
	l := onLoop(t, e, func() *line {
		e.tracker.Observe(1, run, topology.Sight{At: time.Now()})
		l := b.lineTo(1)
		l.connected(e.servers[1], &upstream.Made{FD: ours, Run: run})
		return l
	})
	if _, err := unix.Write(theirs, message(wire.ReadyForQuery, "I")); err != nil {
		t.Fatal(err)
	}
	awaitOnLoop(t, e, "it can be asked", func() bool { return l.ready })
	e.Topology(leads("promoted", 2, 2))
	var before, behind bool
	onLoop(t, e, func() bool {
		l.ask(askCommitted([]uint64{7})) // as it was asked while it was a replica
		c := &client{}
		b.group.Join(use{c, 1}, &c.cross.place)
		b.start()
		before = b.asked != nil
		l.row = [][]byte{{}}
		l.said()
		behind = b.asked == l
		return true
	})
	if before {
		t.Error("it is asked while it owes an answer")
	}
	if !behind {
		t.Error("it has answered, and is not asked what is in progress")
	}
}

// A role is told to read strings otherwise while its sessions are open: what these have had
// judged, prepared too, is a write on the connections that are made from then on, also for the
// session that has waited for the first of them.
func TestAConnectionThatReadsStringsOtherwise(t *testing.T) {
	cluster := labtest.Start(t, 1)
	e := startEngine(t, cluster)
	p := joinSession(t, e, "s")
	p.exchange(wire.AppendQuery(nil, "SET pgpilot.route = 'primary'"))
	p.exchange(sequence(message(wire.Parse, "a\x00SELECT '\\'', 1 --'\x00\x00\x00")))
	execute(t, cluster.Primary(), "ALTER ROLE "+lab.User+" SET standard_conforming_strings = off")
	onLoop(t, e, func() bool {
		for s := range e.siteOf(0, e.clients["s"].login).servers {
			s.site.discard(s)
		}
		return true
	})
	mark := func() uint64 { return onLoop(t, e, func() uint64 { return e.clients["s"].s.Fence().Mark() }) }
	was := mark()
	for _, request := range [][]byte{
		wire.AppendQuery(nil, "SELECT '\\''; DELETE FROM nothing; --'"),
		wire.AppendQuery(nil, "SELECT '\\''; DELETE FROM nothing; --'"),
		sequence(bindOf("a"), executeAll),
		wire.AppendQuery(nil, "SET application_name = '\\''; DELETE FROM nothing; --'"),
	} {
		p.exchange(request)
		if now := mark(); now == was {
			t.Errorf("%q is not fenced", request)
		} else {
			was = now
		}
	}
}

// In session mode a session keeps its connection to a replica until that is none any more: from
// then on it would only be in the way of reads on other replicas.
func TestASessionLeavesAReplicaThatIsPromoted(t *testing.T) {
	cluster := labtest.Start(t, 1)
	e := startEngine(t, cluster, func(c *config.Config) { c.Pool.Mode = config.Session })
	p := joinSession(t, e, "s")
	read := wire.AppendQuery(nil, "SELECT 1")
	p.exchange(read)
	held := func() *server { return e.clients["s"].conns[session.ReplicaSlot] }
	if onLoop(t, e, held) == nil {
		t.Fatal("the session holds no connection to the replica")
	}
	if err := cluster.Promote(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	e.Topology(leads(cluster.Primary().Name, 1, 2))
	promoted := observe(t, cluster.Primary(), bus.Primary)
	promoted.Incarnation.Timeline = 2
	e.Lag(promoted)
	p.exchange(read)
	p.exchange(read)
	if s := onLoop(t, e, held); s != nil {
		t.Errorf("the session still holds a connection to %s as to a replica", cluster.Primary().Name)
	}
	p.exchange(wire.AppendQuery(nil, "UPDATE nothing SET a = 1"))
	if n := onLoop(t, e, func() int32 { return e.tracker.Table().Backends[1].Held }); n != 1 {
		t.Errorf("%d connections to the promoted server are held", n)
	}
}
