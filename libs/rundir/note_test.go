package rundir

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

func TestNotesAreOfThoseThatRun(t *testing.T) {
	d := open(t)
	leave := func(service, id, text string) *Claim {
		t.Helper()
		c, err := d.Claim(service, id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.Note("nothing yet"); err != nil {
			t.Fatal(err)
		}
		if err := c.Note(text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := leave(Lagpoller, "1", "first"), leave(Lagpoller, "b", "second")
	leave(Router, "1", "of another kind")
	// One that was killed: the kernel has freed its lock, and its files are there.
	dead := leave(Lagpoller, "3", "of the dead")
	dead.lock.Close()
	want := func(notes ...Note) {
		t.Helper()
		got, err := d.Notes(Lagpoller)
		if err != nil || !slices.Equal(got, notes) {
			t.Errorf("notes %v, %v; want %v", got, err, notes)
		}
	}
	want(Note{"1", "first"}, Note{"b", "second"})
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	want(Note{"b", "second"})
	d.bury(Lagpoller, "3")
	for _, id := range []string{"1", "3"} {
		if _, err := os.Stat(d.note(Lagpoller, id)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the note of %s is left: %v", id, err)
		}
	}

	// It comes back like everything else that is removed.
	keep(t, two)
	if err := os.Remove(d.note(Lagpoller, "b")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if notes, err := d.Notes(Lagpoller); err == nil && len(notes) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a note that was removed does not come back")
		}
	}
}
