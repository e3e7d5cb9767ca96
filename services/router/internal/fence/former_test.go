package fence

import "testing"

// What cannot be asked about any more is in doubt until it has ended.
func TestFormer(t *testing.T) {
	var f Former
	if !f.May(7) || f.None() {
		t.Error("a server of which nothing is known has shown nothing")
	}
	f.List([]uint64{5}) // of a question from before
	if !f.May(7) {
		t.Error("an answer to a question from before counts")
	}
	f.Asked()
	f.List([]uint64{5, 6})
	if !f.May(5) || !f.May(6) || f.May(7) || f.None() {
		t.Errorf("after 5 and 6 were in progress: %+v", f)
	}
	f.Asked()
	f.List([]uint64{6, 7})
	if f.May(5) || !f.May(6) || f.May(7) {
		t.Errorf("after 5 has ended and 7 begun: %+v", f)
	}
	f.Begin()
	if !f.May(7) || f.None() {
		t.Error("another server's end adds nothing")
	}
	f.Asked()
	f.Begin() // while the question is under way
	f.List([]uint64{8})
	if !f.May(9) {
		t.Error("an answer to a question from before it counts")
	}
	f.Asked()
	f.List(nil)
	if f.May(6) || !f.None() {
		t.Errorf("after all has ended: %+v", f)
	}
}
