package topology

import (
	"slices"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/lsn"
)

// place is where a backend is, and what tells news of it from those of another server that has
// its name in somebody else's configuration, or had it here.
type place struct {
	// address is empty where that is not known.
	address string
	// formerly is where the one was that had the name before.
	formerly string
	// called is the address that each lagpoller has for the name: a host may reach a server by
	// another one than this does.
	called map[string]string
}

// Locate says where a backend is that has just been added. What is known of the timeline of the
// one that was there before, or else had its name, goes for it too until there are news of it.
func (t *Tracker) Locate(i int, address string) {
	own := &t.nodes[i]
	own.place = place{address: address, called: map[string]string{}}
	var there, named lsn.Incarnation
	for j := range t.nodes {
		n := &t.nodes[j]
		if !n.leaving || n.free {
			continue
		}
		if n.address == address {
			there = n.been
		}
		if t.table.Backends[j].Name == t.table.Backends[i].Name && n.address != address {
			own.formerly, named = n.address, n.been
		}
	}
	if own.been = there; there.IsZero() {
		own.been = named
	}
}

// Find is Index for the server that a lagpoller's news are about; -1 also if its name stands
// for another one here. Lagpollers and routers do not take up a new configuration at once: an
// address that another server has, that the name's had before, or that the lagpoller has not
// always had for it is of one that has not arrived here yet, or is over. An address of another
// host's, which may be local there, says only that it is the one from before.
func (t *Tracker) Find(publisher, name, address string) int {
	i := t.Index(name)
	if i < 0 || address == "" || t.nodes[i].address == "" {
		return i
	}
	n := &t.nodes[i]
	if bus.HostOf(publisher) != t.settings.Host {
		if address == n.formerly {
			return -1
		}
		return i
	}
	switch said, known := n.called[publisher]; {
	case known && said == address:
		return i
	case address == n.address:
	case known, address == n.formerly, t.taken(address):
		return -1
	}
	if len(n.called) == maxCalled {
		clear(n.called)
	}
	n.called[publisher] = address
	return i
}

// taken reports whether a backend has the address, or had it until now.
func (t *Tracker) taken(address string) bool {
	return slices.ContainsFunc(t.nodes, func(n node) bool { return !n.free && n.address == address })
}

// maxCalled bounds how many lagpollers' addresses are remembered: more than run.
const maxCalled = 64
