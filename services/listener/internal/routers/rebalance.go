package routers

import (
	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// slack is by how many sessions a router may have more than the others before it is
// asked to give some away.
const slack = 10

// rebalance asks routers that have more sessions than the others to give away what they
// have too much, now that there is one more. Of several listeners one does.
func (f *Fleet) rebalance() {
	if all, err := f.dir.List(rundir.Listener); err == nil && len(all) > 0 && all[0].ID != f.id {
		return
	}
	for l, n := range f.surplus() {
		f.log.Info("a router is asked to give idle sessions to another", obs.KeyPeer, "router."+l.id, obs.KeyCount, n)
		if err := l.conn.Send(handoff.TypeShed, handoff.Shed{Sessions: n}); err != nil {
			l.abandon()
		}
	}
}

// surplus gives how many sessions routers have too much.
func (f *Fleet) surplus() map[*link]int {
	f.state.Lock()
	defer f.state.Unlock()
	total, routers := 0, 0
	for l := range f.state.links {
		if !l.stopping {
			total += l.load()
			routers++
		}
	}
	out := map[*link]int{}
	for l := range f.state.links {
		if routers == 0 || l.stopping {
			continue
		}
		fair := (total + routers - 1) / routers
		if n := l.load() - fair; n > max(slack, fair/10) {
			out[l] = n
		}
	}
	return out
}
