package fence

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// What cannot be asked about any more is in doubt until it has ended.
func TestFormer(t *testing.T) {
	var f Former
	if !f.May(7) || f.None() {
		t.Error("a server of which nothing is known has shown nothing")
	}
	f.List([]uint64{5}, written) // of a question from before
	if !f.May(7) {
		t.Error("an answer to a question from before counts")
	}
	f.Asked()
	f.List([]uint64{5, 6}, written)
	if !f.May(5) || !f.May(6) || f.May(7) || f.None() {
		t.Errorf("after 5 and 6 were in progress: %+v", f)
	}
	f.Asked()
	f.List([]uint64{6, 7}, written)
	if f.May(5) || !f.May(6) || f.May(7) {
		t.Errorf("after 5 has ended and 7 begun: %+v", f)
	}
	f.Begin()
	if !f.May(7) || f.None() {
		t.Error("another server's end adds nothing")
	}
	f.Asked()
	f.Begin() // while the question is under way
	f.List([]uint64{8}, written)
	if !f.May(9) {
		t.Error("an answer to a question from before it counts")
	}
	f.Asked()
	f.List(nil, written)
	if f.May(6) || !f.None() {
		t.Errorf("after all has ended: %+v", f)
	}
}

// What a replica has not committed that has replayed all that was written, nobody has shown.
func TestFormerIsRuledOut(t *testing.T) {
	five := func(x uint64) bool { return x == 5 }
	var f Former
	f.Unwritten(written, five)
	if !f.May(5) {
		t.Error("it is ruled out before it is known how far the primary had written")
	}
	f.Asked()
	f.List([]uint64{5, 6}, written)
	later := lsn.Position{Timeline: 1, LSN: 200}
	f.List([]uint64{5, 6}, later)
	for _, at := range []lsn.Position{{}, {Timeline: 1, LSN: 99}, {Timeline: 2, LSN: 200}} {
		if f.Unwritten(at, five); !f.May(5) {
			t.Errorf("it is ruled out by a replica that has replayed up to %+v", at)
		}
	}
	f.Unwritten(written, five)
	if f.May(5) || !f.May(6) {
		t.Errorf("after 5 has been ruled out: %+v", f)
	}
	f.List([]uint64{6}, lsn.Position{Timeline: 2, LSN: 300})
	if f.Unwritten(later, func(uint64) bool { return true }); f.None() {
		t.Error("a replica of the former timeline speaks for the new one")
	}
	if f.Unwritten(lsn.Position{Timeline: 2, LSN: 300}, func(uint64) bool { return true }); !f.None() {
		t.Errorf("after all has been ruled out: %+v", f)
	}
}
