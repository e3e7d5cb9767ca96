package cache

import (
	"encoding/binary"
	"unsafe"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// table maps keys to verdicts. Keys are keyed hashes: their first bits are as good a
// place as any other hash of them, which a map would have to compute, and no client can
// choose them to meet in one place. Nothing is ever removed.
type table struct {
	// slots are a power of two, of which at most three quarters are used; a key is in
	// the first free one from its place on.
	slots []slot
	n     int
	// details is the memory of the verdicts' details.
	details int
}

type slot struct {
	key  sqltoken.Key
	used bool
	v    verdict.Verdict
}

const slotSize = int(unsafe.Sizeof(slot{}))

// firstSlots is the size of a table with one verdict.
const firstSlots = 64

// find gives the slot of a key, or the one where it belongs; nil in an empty table.
func (t *table) find(k *sqltoken.Key) *slot {
	if len(t.slots) == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := binary.LittleEndian.Uint64(k[:]); ; i++ {
		if s := &t.slots[i&mask]; !s.used || s.key == *k {
			return s
		}
	}
}

// get gives the verdict, nil if there is none. It is valid until the next put.
func (t *table) get(k *sqltoken.Key) *verdict.Verdict {
	if s := t.find(k); s != nil && s.used {
		return &s.v
	}
	return nil
}

func (t *table) put(k sqltoken.Key, v verdict.Verdict) {
	s := t.find(&k)
	if s == nil || !s.used {
		if t.n++; 4*t.n > 3*len(t.slots) {
			t.grow()
			s = t.find(&k)
		}
	}
	t.details += v.Detail.Size() - s.v.Detail.Size()
	*s = slot{k, true, v}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(firstSlots, 2*len(old)))
	for i := range old {
		if old[i].used {
			*t.find(&old[i].key) = old[i]
		}
	}
}
