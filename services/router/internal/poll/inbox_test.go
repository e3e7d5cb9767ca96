package poll

import (
	"slices"
	"sync"
	"testing"
)

func TestInboxRunsInOrder(t *testing.T) {
	p := newPoller(t)
	b, err := NewInbox()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(b.FD(), Token{Slot: 1}, In); err != nil {
		t.Fatal(err)
	}
	var got []int
	for i := range 3 {
		if !b.Post(func() { got = append(got, i) }) {
			t.Fatal("refused")
		}
	}
	if evs := wait(t, p, -1); len(evs) != 1 || !evs[0].Readable() {
		t.Fatalf("%+v; want the inbox readable", evs)
	}
	b.Run()
	if !slices.Equal(got, []int{0, 1, 2}) {
		t.Fatalf("ran %v", got)
	}
	if evs := wait(t, p, 0); len(evs) != 0 {
		t.Fatalf("%+v, though the inbox is empty", evs)
	}
	// What is posted while the inbox runs wakes the loop again.
	b.Post(func() { b.Post(func() { got = append(got, 3) }) })
	b.Run()
	if len(got) != 3 {
		t.Fatal("what a function posts runs within the same Run")
	}
	if evs := wait(t, p, -1); len(evs) != 1 {
		t.Fatalf("%+v; want the inbox readable", evs)
	}
	b.Run()
	if !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Fatalf("ran %v", got)
	}
	b.Post(func() { got = append(got, 4) })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got[len(got)-1] != 4 {
		t.Fatal("what was posted before Close is lost")
	}
	if b.Post(func() { t.Error("ran after Close") }) {
		t.Fatal("Post after Close says that it will be run")
	}
}

// Everything that Post accepts runs once, however many goroutines post, while the
// loop waits and when it ends.
func TestInboxFromManyGoroutines(t *testing.T) {
	p := newPoller(t)
	b, err := NewInbox()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(b.FD(), Token{}, In); err != nil {
		t.Fatal(err)
	}
	const posters, each = 4, 2000
	var accepted sync.WaitGroup
	var mu sync.Mutex
	ran, posted := 0, 0
	for range posters {
		accepted.Go(func() {
			for range each {
				if b.Post(func() { ran++ }) {
					mu.Lock()
					posted++
					mu.Unlock()
				}
			}
		})
	}
	for ran < posters*each/2 {
		wait(t, p, -1)
		b.Run()
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	accepted.Wait()
	if ran != posted {
		t.Fatalf("%d of %d accepted functions ran", ran, posted)
	}
}
