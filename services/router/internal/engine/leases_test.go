package engine

import (
	"slices"
	"strconv"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
)

func itoa(pid uint32) string { return strconv.FormatUint(uint64(pid), 10) }

// spare takes an idle connection to the primary out of the pools, as it would travel along with
// the session.
func (st *station) spare(session string) (l handoff.Lease, fd int) {
	st.t.Helper()
	st.on(func() {
		c := st.clients[session]
		for _, s := range st.idleFor(c, true, handoff.MaxFDs-1) {
			if s.site.key.Backend == st.tracker.Table().Primary {
				l, fd = s.idleLease(c), s.fd
				s.letLoose()
			} else {
				s.site.giveBack(s)
			}
		}
	})
	if l.PID == 0 {
		st.t.Fatal("there is no idle connection to the primary")
	}
	return l, fd
}

// A spare connection that comes along is used if it can be, and otherwise closed: one that its
// server has ended on the way, of an earlier run of the server, or for which there is no room,
// is never used.
func spareConnectionsThatArrive(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	su := st.super()
	donor := joinSession(t, st.Engine, "donor")
	for _, c := range []struct {
		name string
		harm func(l *handoff.Lease, fd int)
		used bool
	}{
		{"as it should be", func(*handoff.Lease, int) {}, true},
		{"its server has ended it", func(l *handoff.Lease, fd int) {
			st.terminate(su, l.PID)
			st.await("that is to be seen", func() bool { return !poll.Silent(fd) })
		}, false},
		{"its server has ended it, and what it has said is read", func(l *handoff.Lease, fd int) {
			st.terminate(su, l.PID)
			buf := make([]byte, 4096)
			for n, st := poll.Recv(fd, buf); st != poll.Closed; n, st = poll.Recv(fd, buf) {
				_ = n
			}
		}, false},
		{"it is of an earlier run of its server", func(l *handoff.Lease, _ int) { l.Run.Postmaster-- }, false},
		{"its server is a standby, and is taken for the primary here", func(l *handoff.Lease, _ int) { l.Standby = true }, false},
		{"its server is not known here", func(l *handoff.Lease, _ int) { l.Backend = "another" }, false},
		{"its server has another address here", func(l *handoff.Lease, _ int) { l.Address = "127.0.0.1:1" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			donor.pid() // there is a connection
			lease, fd := st.spare("donor")
			c.harm(&lease, fd)
			p := st.arrives(t, lease, fd)
			p.untilReady()
			if got := p.value(); (got == itoa(lease.PID)) != c.used {
				t.Errorf("the session works with server process %s; %d has come along", got, lease.PID)
			}
			if !c.used {
				st.gone(su, lease.PID)
			}
			st.balanced(t)
		})
	}
}

// What a connection has reported since it was made is known wherever it arrives: one that reads
// strings otherwise by now (rule 24) will not report it again.
func whatAConnectionHasReported(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	donor := joinSession(t, st.Engine, "donor")
	donor.pid() // there is a connection
	st.on(func() {
		for _, p := range st.pools {
			for _, s := range p.all() {
				s.reported.Note([]byte("standard_conforming_strings\x00off\x00"))
			}
		}
	})
	lease, fd := st.spare("donor")
	st.arrives(t, lease, fd).untilReady()
	found := false
	st.on(func() {
		for _, p := range st.pools {
			for _, s := range p.all() {
				if s.pid != lease.PID {
					continue
				}
				found = true
				now, _ := s.reported.Over(s.params, false)
				if !slices.Contains(now, handoff.Parameter{Name: "standard_conforming_strings", Value: "off"}) {
					t.Errorf("the connection has arrived without what it has reported: %+v", now)
				}
			}
		}
	})
	if !found {
		t.Error("the connection has not arrived")
	}
}

// What has run on a connection before a change of the catalog that only the router knows to which
// it travels, or only the one from which it comes, may have left something there: it is cleaned
// before anybody else gets it.
func whatHasBeenJudgedBefore(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	donor := joinSession(t, st.Engine, "donor")
	generation := uint64(0)
	for name, harm := range map[string]func(l *handoff.Lease){
		"known where it arrives": func(*handoff.Lease) {
			generation++
			st.on(func() { st.flush(lab.Database, generation) })
		},
		"known where it comes from": func(l *handoff.Lease) { l.Soiled = true },
		"known to both":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			donor.exchange(wire.AppendQuery(nil, "VALUES (set_config('work_mem', '77MB', false))"))
			lease, fd := st.spare("donor")
			want := "77MB" // as nobody knows that it sets something
			if harm != nil {
				harm(&lease)
				want = "4MB"
			}
			p := st.arrives(t, lease, fd)
			p.untilReady()
			p.exchange(wire.AppendQuery(nil, "VALUES (current_setting('work_mem'))"))
			if got := p.value(); got != want {
				t.Errorf("the session has found %s, want %s", got, want)
			}
		})
	}
}

// A router to which no primary has said anything yet hears from a session that comes what replicas
// are to be given, so that its reads look there as they have before.
func whatThePrimaryReports(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	p := joinSession(t, st.Engine, "x")
	p.pid()
	shapes := func() (out []handoff.Parameter) {
		st.on(func() {
			for login := range st.greetings {
				out = st.shaping(login)
			}
		})
		return out
	}
	before := shapes()
	if len(before) == 0 {
		t.Fatal("nothing is known of the primary")
	}
	m := st.leaves("x")
	st.answer(m, handoff.TypeAck)
	st.on(func() {
		clear(st.greetings)
		for _, p := range st.pools {
			for _, s := range p.all() {
				p.DropIdle(s)
				p.forget(s)
			}
		}
	})
	rec := st.record(m)
	rec.Live.Leases = nil
	st.Adopt(rec, m.FDs[:1], st.opts.Way())
	if got := shapes(); !slices.Equal(got, before) {
		t.Errorf("replicas are given %v, before the session left %v", got, before)
	}
}

// Spare connections beyond backends.max_connections are not taken.
func spareConnectionsWithoutRoom(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	su := st.super()
	donor := joinSession(t, st.Engine, "donor")
	donor.pid()
	lease, fd := st.spare("donor")
	holder := joinSession(t, st.Engine, "holder")
	holder.exchange(wire.AppendQuery(nil, "BEGIN"))
	held := holder.pid()
	st.on(func() {
		limited := *st.cfg
		limited.Servers.MaxConnections = 1
		st.cfg = &limited
	})
	p := st.arrives(t, lease, fd)
	st.gone(su, lease.PID)
	st.on(func() {
		if n := st.servers[st.tracker.Table().Primary].total.Count(); n != 1 {
			t.Errorf("there are %d connections to the primary", n)
		}
	})
	holder.exchange(wire.AppendQuery(nil, "COMMIT"))
	p.untilReady()
	if got := p.value(); got != held {
		t.Errorf("the session works with server process %s instead of %s", got, held)
	}
	st.balanced(t)
}

// A session that could not be served here is refused, and stays where it is.
func sessionsThatAreRefused(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	joinSession(t, st.Engine, "here")
	var known, elsewhere, unknown, spare handoff.Lease
	st.on(func() {
		p := st.servers[st.tracker.Table().Primary]
		known = handoff.Lease{Backend: p.name, Address: p.address}
		elsewhere = handoff.Lease{Backend: p.name, Address: "127.0.0.1:1"}
		unknown = handoff.Lease{Backend: "another", Address: p.address}
		spare = handoff.Lease{Backend: "another", Address: p.address, Idle: true, Spare: true}
		st.departing["leaving"] = &departure{}
	})
	for _, c := range []struct {
		name, session string
		leases        []handoff.Lease
		descriptors   int
		taken         bool
	}{
		{"a new one", "x", nil, 1, true},
		{"one with its connection", "x", []handoff.Lease{known}, 2, true},
		{"a descriptor is missing", "x", []handoff.Lease{known}, 1, false},
		{"there is one too many", "x", nil, 2, false},
		{"it is here", "here", nil, 1, false},
		{"it is about to leave", "leaving", nil, 1, false},
		{"its server is not known here", "x", []handoff.Lease{known, unknown}, 3, false},
		{"its server has another address here", "x", []handoff.Lease{elsewhere}, 2, false},
		{"that of a spare connection is not known here", "x", []handoff.Lease{known, spare}, 3, true},
	} {
		st.on(func() {
			rec := &handoff.Record{Session: c.session, Live: &handoff.Live{Leases: c.leases}}
			if err := st.admits(rec, c.descriptors); (err == nil) != c.taken {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	st.on(func() {
		delete(st.departing, "leaving")
		st.stopping = true
		if err := st.admits(&handoff.Record{Session: "x"}, 1); err == nil {
			t.Error("a router that stops takes sessions")
		}
		st.stopping = false
	})
}

// A session that cannot be served after all ends with all its connections, and nothing of it
// is left in the accounts.
func boundToAServerThatIsGone(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	su := st.super()
	donor := joinSession(t, st.Engine, "donor")
	donor.pid()
	stepped, fd := st.spare("donor")
	stepped.Spare = false
	gone := handoff.Lease{Backend: "another"}
	connections := func() (n int) {
		st.on(func() { n = st.servers[st.tracker.Table().Primary].total.Count() })
		return n
	}
	before := connections()
	theirs, ours := handofftest.Ends(t)
	p := st.brings(t, []handoff.Lease{stepped, gone}, fd, ours)
	if said := p.end(); said != "" {
		t.Errorf("its client is told %q", said)
	}
	other := &peer{t: t, fd: theirs, buf: make([]byte, 10)}
	other.end()
	st.gone(su, stepped.PID)
	st.balanced(t)
	if after := connections(); after != before {
		t.Errorf("%d connections to the primary count, before it %d", after, before)
	}
	st.on(func() {
		if st.clients[t.Name()] != nil || len(st.clients) != 1 {
			t.Errorf("%d sessions are here", len(st.clients))
		}
	})
	st.mu.Lock()
	defer st.mu.Unlock()
	if !slices.Equal(st.ended, []string{t.Name()}) {
		t.Errorf("%q are said to have ended", st.ended)
	}
}

// arrives has a session come with a spare connection, whose client waits for the answer to a
// statement that asks which server process it is given: it is given one at once.
func (st *station) arrives(t *testing.T, lease handoff.Lease, fd int) *peer {
	t.Helper()
	return st.brings(t, []handoff.Lease{lease}, fd)
}

// brings has a session come with its connections, whose client waits for the answer to a
// statement.
func (st *station) brings(t *testing.T, leases []handoff.Lease, servers ...int) *peer {
	t.Helper()
	theirs, ours := handofftest.Ends(t)
	rec := &handoff.Record{
		Session: t.Name(), User: lab.User, Database: lab.Database, Protocol: 3 << 16, Cancel: handoff.CancelKey{PID: uint32(ours), Secret: []byte{1, 2, 3, 4}},
		Live:   &handoff.Live{Status: "I", Leases: leases},
		Unread: whichServer,
	}
	st.on(func() { st.commence(&arrival{rec: rec, fds: append([]int{ours}, servers...)}) })
	return &peer{t: t, fd: theirs, buf: make([]byte, 64<<10)}
}

// balanced checks the account of the connections to the primary.
func (st *station) balanced(t *testing.T) {
	t.Helper()
	st.on(func() {
		for k, p := range st.pools {
			idle, lent, connecting := p.Counts()
			if idle+lent != len(p.servers) {
				t.Errorf("the pool of %s counts %d idle and %d lent connections, %d being made, and has %d", st.servers[k.Backend].name, idle, lent, connecting, len(p.servers))
			}
		}
	})
}

// Spare connections go along with the sessions of a router that stops, one to each server, if
// they have worked just now; a router that goes on needs them itself.
func whoTakesSpareConnectionsAlong(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	spares := func(m *handoff.Message) (n int) {
		t.Helper()
		for _, l := range st.record(m).Live.Leases {
			if l.Spare {
				n++
			}
		}
		if len(m.FDs) != 1+n {
			t.Errorf("%d descriptors come with %d spare connections", len(m.FDs), n)
		}
		handoff.CloseFDs(m.FDs)
		return n
	}
	peers := map[string]*peer{}
	for _, name := range []string{"works", "rests"} {
		peers[name] = joinSession(t, st.Engine, name)
	}
	work := func() {
		for _, p := range peers { // with a connection to the primary each
			p.exchange(wire.AppendQuery(nil, "SELECT 1"))
			p.exchange(wire.AppendQuery(nil, "BEGIN"))
			p.pid()
		}
		for _, p := range peers {
			p.exchange(wire.AppendQuery(nil, "COMMIT"))
		}
	}
	work()
	m := st.leaves("works")
	if n := spares(m); n != 0 {
		t.Errorf("%d spare connections leave a router that goes on", n)
	}
	st.answer(m, handoff.TypeRefuse)
	work()
	st.on(func() { st.clients["rests"].started = st.now.Add(-spareFor) })
	st.Stop(patience)
	got := map[string]int{}
	for range peers {
		m := st.gets()
		got[st.record(m).Session] = spares(m)
		if err := st.Send(handoff.TypeAck, handoff.SessionRef{Session: st.record(m).Session}); err != nil {
			t.Fatal(err)
		}
	}
	st.haveMoved(len(peers))
	if got["works"] != 2 || got["rests"] != 0 {
		t.Errorf("spare connections leave with the sessions as in %v", got)
	}
}

// What has been made to a replica says so on its way, and what was given to it.
func whatAConnectionToAReplicaIs(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	p := joinSession(t, st.Engine, "x")
	p.exchange(wire.AppendQuery(nil, "SELECT 1"))
	replicas := 0
	st.on(func() {
		c := st.clients["x"]
		for _, s := range st.idleFor(c, true, handoff.MaxFDs-1) {
			l, replica := s.idleLease(c), s.site.key.Backend != st.tracker.Table().Primary
			if replica {
				replicas++
			}
			if l.Standby != replica || (len(l.Given) > 0) != replica {
				t.Errorf("a connection to %s is leased with standby %v, given %v", l.Backend, l.Standby, l.Given)
			}
			s.site.giveBack(s)
		}
	})
	if replicas == 0 {
		t.Error("there is no connection to the replica")
	}
}

// A session holds a connection to a standby that is taken for the primary where it arrives: it
// keeps it, and nobody gets it after it.
func whatIsHeldOfAStandby(t *testing.T, cluster *lab.Cluster) {
	st := newStation(t, cluster)
	p := joinSession(t, st.Engine, "x")
	p.exchange(wire.AppendQuery(nil, "BEGIN"))
	held := p.pid()
	m := st.leaves("x")
	st.answer(m, handoff.TypeAck)
	rec := st.record(m)
	for i := range rec.Live.Leases {
		rec.Live.Leases[i].Standby = true
	}
	st.Adopt(rec, m.FDs, st.opts.Way())
	if got := p.pid(); got != held {
		t.Errorf("its transaction goes on with server process %s instead of %s", got, held)
	}
	p.exchange(wire.AppendQuery(nil, "COMMIT"))
	if p.pid() == held {
		t.Error("the connection is lent again")
	}
}
