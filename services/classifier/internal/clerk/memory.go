package clerk

import (
	"container/list"
	"fmt"
	"sync"
	"unique"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// memory keeps the verdicts that were used last, as many as there is room for. Those with
// details have to make do with a room of their own: where it is full, the one goes that was
// used longest ago in the database that takes most of it. So whoever sends any number of
// them costs neither plain verdicts nor those of other databases their place. It is safe for
// concurrent use.
type memory struct {
	mu  sync.Mutex
	lru *simplelru.LRU[matter, kept] // guarded by mu
	// shares are what the verdicts with details take, by database; guarded by mu.
	shares map[unique.Handle[string]]*share
	// room is how many bytes those may take with their entries, taken how many they do,
	// details how many of these the details are; guarded by mu.
	room, taken, details int
}

// kept is a verdict, and for one with details its place in its database's share.
type kept struct {
	verdict.Verdict
	place *list.Element
}

// share is what a database has of verdicts with details.
type share struct {
	// order has what they are about, the least recently used first.
	order *list.List
	taken int
}

func newMemory(n int) (*memory, error) {
	m := &memory{room: n * verdict.DetailRoom, shares: make(map[unique.Handle[string]]*share)}
	var err error
	if m.lru, err = simplelru.NewLRU(n, m.goneLocked); err != nil {
		return nil, fmt.Errorf("make the verdict cache: %w", err)
	}
	return m, nil
}

// weight is what a verdict takes of the room for those with details.
func weight(d *verdict.Detail) int { return entryBytes + d.Size() }

// get gives a verdict and notes that it is used.
func (m *memory) get(k matter) (verdict.Verdict, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.lru.Get(k)
	if v.place != nil {
		m.shares[k.database].order.MoveToBack(v.place)
	}
	return v.Verdict, ok
}

// peek gives a verdict.
func (m *memory) peek(k matter) (verdict.Verdict, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.lru.Peek(k)
	return v.Verdict, ok
}

// add keeps a verdict and reports how many others had to go for it.
func (m *memory) add(k matter, v verdict.Verdict) (gone int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(k)
	var place *list.Element
	if v.Detail != nil {
		gone = m.makeRoomLocked(weight(v.Detail))
		place = m.takeLocked(k, v.Detail)
	}
	if m.lru.Add(k, kept{v, place}) {
		gone++
	}
	return gone
}

// takeLocked gives a verdict with details a place in its database's share.
func (m *memory) takeLocked(k matter, d *verdict.Detail) *list.Element {
	s := m.shares[k.database]
	if s == nil {
		s = &share{order: list.New()}
		m.shares[k.database] = s
	}
	s.taken += weight(d)
	m.taken += weight(d)
	m.details += d.Size()
	return s.order.PushBack(k)
}

// goneLocked takes the place back of a verdict that is kept no more.
func (m *memory) goneLocked(k matter, v kept) {
	if v.place == nil {
		return
	}
	s := m.shares[k.database]
	s.order.Remove(v.place)
	s.taken -= weight(v.Detail)
	m.taken -= weight(v.Detail)
	m.details -= v.Detail.Size()
	if s.order.Len() == 0 {
		delete(m.shares, k.database)
	}
}

// resize changes how many verdicts are kept and reports how many have to go.
func (m *memory) resize(n int) (gone int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room = n * verdict.DetailRoom
	return m.lru.Resize(n) + m.makeRoomLocked(0)
}

// makeRoomLocked drops verdicts with details until there is room for one of that weight, or
// none is left. It reports how many had to go.
func (m *memory) makeRoomLocked(weight int) (gone int) {
	for m.taken+weight > m.room && len(m.shares) > 0 {
		var most *share
		for _, s := range m.shares {
			if most == nil || s.taken > most.taken {
				most = s
			}
		}
		m.lru.Remove(most.order.Front().Value.(matter))
		gone++
	}
	return gone
}

// remove forgets what is about a database.
func (m *memory) remove(of func(matter) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.lru.Keys() {
		if of(k) {
			m.lru.Remove(k)
		}
	}
}

// keys gives what there are verdicts on, the least recently used first.
func (m *memory) keys() []matter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lru.Keys()
}

// size gives the number of verdicts, and about how many bytes they take.
func (m *memory) size() (n, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n = m.lru.Len()
	return n, n*entryBytes + m.details
}
