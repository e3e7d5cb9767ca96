package fence

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

const on1, on2 = Set(1 << 1), Set(1 << 2)

// written is how far the primary had written.
var written = lsn.Position{Timeline: 1, LSN: 100}

func doubts(c *Crossing) (out []uint64) {
	c.Doubts(func(x uint64) { out = append(out, x) })
	return out
}

func TestCrossing(t *testing.T) {
	none := func(uint64) bool { return false }
	all := func(uint64) bool { return true }
	for name, c := range map[string]struct {
		from Set
		do   func(*Crossing)
		want bool
	}{
		"nobody can be asked":              {0, func(c *Crossing) { c.Open([]uint64{7, 8}, written); c.Only(func(x uint64) bool { return x == 8 }) }, false},
		"nobody can have shown it":         {0, func(c *Crossing) { c.Open([]uint64{7, 8}, written); c.Only(none) }, true},
		"others may have shown it":         {on1 | on2, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unseen(1, none); c.Unseen(2, all) }, false},
		"nothing is known yet":             {on1, func(*Crossing) {}, false},
		"a replica alone says nothing":     {on1, func(c *Crossing) { c.Unseen(1, all) }, false},
		"nothing is in progress":           {on1, func(c *Crossing) { c.Open(nil, written) }, true},
		"one is in progress":               {on1, func(c *Crossing) { c.Open([]uint64{7}, written) }, false},
		"it is in progress on the replica": {on1, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unseen(1, all) }, true},
		"the replica has committed it":     {on1, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unseen(1, none) }, false},
		"it has ended":                     {on1, func(c *Crossing) { c.Open([]uint64{7}, written); c.Open([]uint64{8}, written) }, true},
		"it is still in progress":          {on1, func(c *Crossing) { c.Open([]uint64{7, 8}, written); c.Open([]uint64{8, 9}, written) }, false},
		"one of two replicas":              {on1 | on2, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unseen(1, all) }, false},
		"two of two replicas":              {on1 | on2, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unseen(1, all); c.Unseen(2, all) }, true},
		"a replica that was not read":      {on1, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unseen(2, all) }, false},
		"one speaks for all":               {on1 | on2, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unwritten(written, all) }, true},
		"one speaks for all, of one of two": {on1 | on2, func(c *Crossing) {
			c.Open([]uint64{7, 8}, written)
			c.Unwritten(written, func(x uint64) bool { return x == 7 })
		}, false},
		"it has committed it":         {on1 | on2, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unwritten(written, none) }, false},
		"it speaks for nobody behind": {on1, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unwritten(lsn.Position{Timeline: 1, LSN: 99}, all) }, false},
		"nor elsewhere":               {on1, func(c *Crossing) { c.Open([]uint64{7}, written); c.Unwritten(lsn.Position{Timeline: 2, LSN: 200}, all) }, false},
		"nor where nothing is known":  {on1, func(c *Crossing) { c.Open([]uint64{7}, lsn.Position{}); c.Unwritten(written, all) }, false},
		"nor before the primary":      {on1, func(c *Crossing) { c.Unwritten(written, all) }, false},
		"as far as at first is enough": {on1, func(c *Crossing) {
			c.Open([]uint64{7}, written)
			c.Open([]uint64{7}, lsn.Position{Timeline: 1, LSN: 200})
			c.Unwritten(written, all)
		}, true},
		"but not on another timeline": {on1, func(c *Crossing) {
			c.Open([]uint64{7}, written)
			c.Open([]uint64{7}, lsn.Position{Timeline: 2, LSN: 200})
			c.Unwritten(written, all)
		}, false},
		"what began later is not waited on": {on1, func(c *Crossing) {
			c.Open([]uint64{7}, written)
			c.Open([]uint64{7, 9}, written)
			c.Unseen(1, func(x uint64) bool { return x == 7 })
		}, true},
		"one of two transactions": {on1, func(c *Crossing) {
			c.Open([]uint64{7, 8}, written)
			c.Unseen(1, func(x uint64) bool { return x == 7 })
		}, false},
		"the other one ends": {on1, func(c *Crossing) {
			c.Open([]uint64{7, 8}, written)
			c.Unseen(1, func(x uint64) bool { return x == 7 })
			c.Open([]uint64{7}, written)
		}, true},
	} {
		var x Crossing
		x.Begin(c.from)
		c.do(&x)
		if x.Passed() != c.want {
			t.Errorf("%s: passed %v, in doubt %v", name, x.Passed(), doubts(&x))
		}
	}
}

func TestACrossingIsUsedAgain(t *testing.T) {
	var x Crossing
	x.Begin(on1)
	x.Open([]uint64{7, 8}, written)
	x.Begin(on1)
	if x.Passed() || len(doubts(&x)) != 0 {
		t.Fatalf("begun again: passed %v, in doubt %v", x.Passed(), doubts(&x))
	}
	x.Open([]uint64{9}, written)
	if got := doubts(&x); len(got) != 1 || got[0] != 9 {
		t.Fatalf("in doubt %v, want what is in progress now", got)
	}
}

func TestFullIDs(t *testing.T) {
	for _, c := range []struct {
		near uint64
		xid  uint32
		want uint64
	}{
		{760, 745, 745},
		{760, 770, 770},
		{1<<32 + 5, 3, 1<<32 + 3},
		{1<<32 + 5, 1<<32 - 3, 1<<32 - 3}, // from before the ids went round
		{1<<32 - 3, 5, 1<<32 + 5},
		{3<<32 + 1<<31, 7, 3<<32 + 7},
	} {
		if got := Full(c.near, c.xid); got != c.want {
			t.Errorf("%d near %d is %d, want %d", c.xid, c.near, got, c.want)
		}
	}
}
