package clerk

import (
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// memory keeps the verdicts that were used last, as many as there is room for, and as
// many as their details leave room for. It is safe for concurrent use.
type memory struct {
	mu  sync.Mutex
	lru *simplelru.LRU[matter, verdict.Verdict] // guarded by mu
	// room is how many bytes the details may take, details how many they do; guarded by mu.
	room, details int
}

func newMemory(n int) (*memory, error) {
	m := &memory{room: n * verdict.DetailRoom}
	var err error
	if m.lru, err = simplelru.NewLRU(n, func(_ matter, v verdict.Verdict) { m.details -= v.Detail.Size() }); err != nil {
		return nil, fmt.Errorf("make the verdict cache: %w", err)
	}
	return m, nil
}

// get gives a verdict and notes that it is used.
func (m *memory) get(k matter) (verdict.Verdict, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lru.Get(k)
}

// peek gives a verdict.
func (m *memory) peek(k matter) (verdict.Verdict, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lru.Peek(k)
}

// add keeps a verdict and reports how many others had to go for it.
func (m *memory) add(k matter, v verdict.Verdict) (gone int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(k)
	m.details += v.Detail.Size()
	if m.lru.Add(k, v) {
		gone++
	}
	return gone + m.makeRoomLocked()
}

// resize changes how many verdicts are kept and reports how many have to go.
func (m *memory) resize(n int) (gone int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room = n * verdict.DetailRoom
	return m.lru.Resize(n) + m.makeRoomLocked()
}

// makeRoomLocked drops the oldest verdicts while the details of all take too much.
func (m *memory) makeRoomLocked() (gone int) {
	for m.details > m.room && m.lru.Len() > 1 {
		m.lru.RemoveOldest()
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
