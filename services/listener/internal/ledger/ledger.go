package ledger

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/listener/internal/startup"
)

// Lengths of a cancel key's secret, in bytes, as PostgreSQL's.
const (
	secretSize30 = 4
	secretSize32 = 32
)

// Ledger is safe for concurrent use.
type Ledger struct {
	prefix string
	state  struct {
		sync.Mutex
		max     int
		next    uint64
		entries map[string]uint32 // session id to the pid of its cancel key, 0 if adopted
		pids    map[uint32]struct{}
	}
}

// New gives an empty ledger for at most max clients. The instance's id becomes
// part of every session id.
func New(instance string, max int, reg prometheus.Registerer) *Ledger {
	var run [3]byte
	_, _ = rand.Read(run[:]) // never fails (crypto/rand)
	l := &Ledger{prefix: instance + "-" + hex.EncodeToString(run[:])}
	l.state.max = max
	l.state.entries = map[string]uint32{}
	l.state.pids = map[uint32]struct{}{}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgpilot_listener_clients",
			Help: "Clients that are connected: logging in, parked, or served by a router.",
		}, func() float64 { return float64(l.Len()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgpilot_listener_max_clients",
			Help: "The most clients that may be connected (limits.max_clients).",
		}, func() float64 { return float64(l.Max()) }),
	)
	return l
}

// Entry is a client's place.
type Entry struct {
	// Session is unique on this host, across restarts.
	Session string
	// Cancel is unique among the entries of this ledger.
	Cancel handoff.CancelKey
}

// Open takes a place for a client of a protocol version. It fails when all are
// taken.
func (l *Ledger) Open(version uint32) (Entry, bool) {
	size := secretSize30
	if version >= startup.Version32 {
		size = secretSize32
	}
	secret := make([]byte, size)
	_, _ = rand.Read(secret) // never fails (crypto/rand)

	l.state.Lock()
	defer l.state.Unlock()
	if len(l.state.entries) >= l.state.max {
		return Entry{}, false
	}
	l.state.next++
	e := Entry{
		Session: fmt.Sprintf("%s-%d", l.prefix, l.state.next),
		Cancel:  handoff.CancelKey{PID: l.freePIDLocked(), Secret: secret},
	}
	l.state.entries[e.Session] = e.Cancel.PID
	l.state.pids[e.Cancel.PID] = struct{}{}
	return e, true
}

// freePIDLocked gives a positive int32, as drivers expect of a process id.
func (l *Ledger) freePIDLocked() uint32 {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		pid := binary.BigEndian.Uint32(b[:]) & 0x7fffffff
		if _, taken := l.state.pids[pid]; pid != 0 && !taken {
			return pid
		}
	}
}

// Adopt counts a session that was opened before this process started.
func (l *Ledger) Adopt(session string) {
	l.state.Lock()
	defer l.state.Unlock()
	if _, known := l.state.entries[session]; !known {
		l.state.entries[session] = 0
	}
}

// Close gives a place back. A session that is not there is none.
func (l *Ledger) Close(session string) {
	l.state.Lock()
	defer l.state.Unlock()
	delete(l.state.pids, l.state.entries[session])
	delete(l.state.entries, session)
}

// SetMax changes the limit. Clients that are connected stay.
func (l *Ledger) SetMax(max int) {
	l.state.Lock()
	defer l.state.Unlock()
	l.state.max = max
}

// Full says that there is no place at the moment.
func (l *Ledger) Full() bool {
	l.state.Lock()
	defer l.state.Unlock()
	return len(l.state.entries) >= l.state.max
}

// Max gives the limit.
func (l *Ledger) Max() int {
	l.state.Lock()
	defer l.state.Unlock()
	return l.state.max
}

// Len gives the number of clients.
func (l *Ledger) Len() int {
	l.state.Lock()
	defer l.state.Unlock()
	return len(l.state.entries)
}
