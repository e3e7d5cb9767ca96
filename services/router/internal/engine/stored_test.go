package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// When the primary has shown that something else is stored for a role, the connections that
// were made before are lent to nobody any more: at once if they are idle, and when they come
// back if a session has them. It is seen when a session here has said ALTER ROLE, when the news
// of the primary say so, and otherwise when a connection is made.
func TestConnectionsFromBeforeAlterRole(t *testing.T) {
	cluster := labtest.Start(t, 1)
	e := startEngine(t, cluster)
	alter := func(value string) string {
		return "ALTER ROLE " + lab.User + " SET search_path = " + value
	}
	write := wire.AppendQuery(nil, "UPDATE public.nothing SET a = 1")
	show := wire.AppendQuery(nil, "SELECT current_setting('search_path')")
	showHere := wire.AppendQuery(nil, "VALUES (current_setting('search_path'))")
	reader, other, holder, second := joinSession(t, e, "reads"), joinSession(t, e, "writes"), joinSession(t, e, "holds"), joinSession(t, e, "second")
	connections := func() map[*server]bool {
		out := map[*server]bool{}
		for _, p := range e.pools {
			for _, s := range p.all() {
				out[s] = true
			}
		}
		return out
	}
	for _, c := range []struct {
		name, value string
		alter       func()
	}{
		{"here", "here", func() { other.exchange(wire.AppendQuery(nil, alter("here"))) }},
		{"here, in a transaction", "block", func() {
			other.exchange(wire.AppendQuery(nil, "BEGIN"))
			other.exchange(wire.AppendQuery(nil, alter("block")))
			other.exchange(wire.AppendQuery(nil, "COMMIT"))
		}},
		{"told by the news", "news", func() {
			execute(t, cluster.Primary(), alter("news"))
			m := observe(t, cluster.Primary(), bus.Primary)
			m.Settings = "others"
			e.Lag(m)
		}},
		{"elsewhere", "elsewhere", func() {
			execute(t, cluster.Primary(), alter("elsewhere"))
			for _, p := range []*peer{other, second} { // one more connection than there are
				p.exchange(wire.AppendQuery(nil, "BEGIN"))
				p.exchange(write)
			}
			other.exchange(wire.AppendQuery(nil, "COMMIT"))
			second.exchange(wire.AppendQuery(nil, "ROLLBACK"))
		}},
	} {
		reader.exchange(show)
		holder.exchange(wire.AppendQuery(nil, "BEGIN"))
		holder.exchange(showHere)
		was := holder.value()
		other.exchange(write)
		if n := onLoop(t, e, func() int { return len(onReplica(e)) }); n == 0 {
			t.Fatalf("%s: nothing is read on the replica", c.name)
		}
		before := onLoop(t, e, connections)
		c.alter()
		awaitOnLoop(t, e, c.name+": what was idle is closed", func() bool {
			left := 0
			for s := range connections() {
				if before[s] {
					left++
				}
			}
			return left == 1
		})
		holder.exchange(showHere)
		if got := holder.value(); got != was {
			t.Errorf("%s: in the transaction %s becomes %s", c.name, was, got)
		}
		holder.exchange(wire.AppendQuery(nil, "COMMIT"))
		reader.exchange(write)
		for range 10 {
			reader.exchange(show)
			if got := reader.value(); got != c.value {
				t.Errorf("%s: a read shows %s", c.name, got)
			}
			holder.exchange(showHere)
			if got := holder.value(); got != c.value {
				t.Errorf("%s: a write shows %s", c.name, got)
			}
		}
		onLoop(t, e, func() bool {
			for s := range connections() {
				if before[s] {
					t.Errorf("%s: a connection from before is there still", c.name)
				}
			}
			return true
		})
		// The replica is used again when it has replayed it.
		limit := time.Now().Add(time.Minute)
		for onLoop(t, e, func() bool { return len(onReplica(e)) == 0 }) {
			if reader.exchange(show); time.Now().After(limit) {
				t.Fatalf("%s: nothing is read on the replica any more", c.name)
			}
		}
	}
}

// What a connection shows is read after its login, so that the first one that shows a change
// may not have it itself; and a replica may lag behind the primary or be ahead of what that
// has shown.
func TestWhatConnectionsShowOfTheStored(t *testing.T) {
	account := upstream.Account{User: "u", Database: "d"}
	start := time.Now()
	e := &Engine{
		log: slog.New(slog.DiscardHandler), now: start, cfg: config.Default(), stored: map[upstream.Account]stored{}, pools: map[poolKey]*site{},
		servers: make([]*serverSite, 2), tracker: topology.New([]string{"a", "b"}, topology.Settings{}),
		reviewing: true, // nobody is asked
	}
	primary, replica := &site{e: e, key: poolKey{Backend: 0, User: "u", Database: "d"}}, &site{e: e, key: poolKey{Backend: 1, User: "u", Database: "d"}}
	made := func(p *site, digest string, at time.Time) bool {
		if p == primary {
			e.isStored(account, digest, at)
		} else if p.deviates(digest) {
			return false
		}
		s := &server{site: p, stored: digest}
		s.Made = at
		return !e.bygone(s)
	}
	for i, c := range []struct {
		on            *site
		digest        string
		begun         time.Duration // ago
		lent, reviews bool
	}{
		{replica, "1", 0, true, false}, // before anything is known of the primary
		{primary, "1", 0, true, false},
		{replica, "1", 0, true, false},
		{replica, "2", 0, false, true}, // it is ahead
		{replica, "2", 0, false, false},
		{primary, "2", 0, false, false}, // may have begun with the first
		{primary, "2", time.Minute, false, false},
		{primary, "1", time.Minute, false, false}, // took long
		{primary, "2", 0, true, false},
		{primary, "", 0, true, false},
		{replica, "1", 0, false, true}, // lags
		{replica, "1", 0, false, false},
		{replica, "2", 0, false, false}, // may have begun with the first
		{replica, "2", 0, true, false},
		{replica, "", 0, true, false},
	} {
		e.now, e.again = e.now.Add(time.Second), false
		begun := e.now.Add(-c.begun)
		e.now = e.now.Add(time.Millisecond) // it takes some time
		if lent := made(c.on, c.digest, begun); lent != c.lent || e.again != c.reviews {
			t.Errorf("%d: %s shows %q: lent %t, asks %t", i, []string{"primary", "replica"}[c.on.key.Backend], c.digest, lent, e.again)
		}
	}
	// When the primary does not say, no replica is kept off.
	e.stopping = true
	e.reviewed(nil, nil, e.now, errDemoted)
	if !made(replica, "3", e.now) {
		t.Error("reads stay off a replica for what is not known")
	}
}

// The primary is asked once for each piece of news of what is stored, and again if it could not
// be asked or has not answered.
func TestNewsOfTheStoredAreFollowed(t *testing.T) {
	names := []string{"a", "b"}
	e := &Engine{
		log: slog.New(slog.DiscardHandler), now: time.Now(), cfg: config.Default(), stored: map[upstream.Account]stored{}, pools: map[poolKey]*site{},
		servers: make([]*serverSite, 2), tracker: topology.New(names, topology.Settings{}),
		reviewing: true, // nobody is asked
	}
	e.pools[poolKey{User: "u", Database: "d"}] = &site{e: e}
	const replica, primary = 1, 0
	for i, c := range []struct {
		known, failed bool // of the primary
		of            int
		settings      string
		asks          bool
	}{
		{false, false, primary, "1", false}, // nobody to ask
		{true, false, primary, "1", true},
		{true, false, primary, "1", false},
		{true, false, replica, "2", false},
		{true, false, primary, "", false},
		{true, false, primary, "2", true},
		{true, true, primary, "2", true},
		{true, false, primary, "2", false},
	} {
		e.tracker = topology.New(names, topology.Settings{})
		news := bus.Topology{Primary: names[primary]}
		if !c.known { // two claim to be it
			news = bus.Topology{Members: []bus.Member{{Backend: names[0], Role: bus.Primary, Healthy: true}, {Backend: names[1], Role: bus.Primary, Healthy: true}}}
		}
		e.tracker.Topology(&news, e.now)
		if c.failed {
			e.reviewed(nil, nil, e.now, errDemoted)
			e.reviewing = true
		}
		e.again = false
		if e.hearStored(c.of, c.settings); e.again != c.asks {
			t.Errorf("%d: %q of %s: asks %t", i, c.settings, names[c.of], e.again)
		}
	}
}
