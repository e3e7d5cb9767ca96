package clerk

import (
	"encoding/binary"
	"testing"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// nth is one of many statements of a database, in a text that says what is judged of it.
func nth(database, text string, n int) *verdict.Request {
	r := &verdict.Request{Database: database, Text: text}
	binary.LittleEndian.PutUint64(r.Key[:], uint64(n))
	return r
}

// flooded is an office that remembers size verdicts and knows a statement of each kind of
// two databases, before one of them is asked about any number of strings with parts details
// each.
func flooded(t *testing.T, size, parts int) (o *office, old map[string]*verdict.Request) {
	t.Helper()
	detailed := func(parts int) judge.Opinion {
		return judge.Opinion{Verdict: verdict.Verdict{Detail: &verdict.Detail{Parts: make([]verdict.Part, parts)}}}
	}
	o = open(t, size, func(text string) judge.Opinion {
		switch text {
		case "several":
			return detailed(2)
		case "flood":
			return detailed(parts)
		}
		return read(text)
	})
	o.opts.Announce = func(string, sqltoken.Key, verdict.Verdict, About) {}
	old = make(map[string]*verdict.Request)
	for _, database := range []string{"quiet", "busy"} {
		for i, text := range []string{"plain", "several"} {
			r := nth(database, text, i)
			o.decide(t, r)
			old[database+" "+text] = r
		}
	}
	for n := range 5 * size {
		o.decide(t, nth("busy", "flood", 10+n))
	}
	return o, old
}

// Strings of several statements are as many as a client likes, each with much to tell or
// little. They cost no other statement its place, but those of their kind and database.
func TestAFloodOfDetailsLeavesTheOthersAlone(t *testing.T) {
	const size = 1000
	for _, parts := range []int{1, 50, 200} {
		o, old := flooded(t, size, parts)
		for name, r := range old {
			_, ok := o.Recall(r)
			if want := name != "busy several"; ok != want {
				t.Errorf("%d parts: %s is known: %v, want %v", parts, name, ok, want)
			}
		}
		if _, ok := o.Recall(nth("busy", "flood", 10+5*size-1)); !ok {
			t.Errorf("%d parts: the last is not known", parts)
		}
		if o.cache.taken > o.cache.room {
			t.Errorf("%d parts: %d bytes are taken of %d", parts, o.cache.taken, o.cache.room)
		}
	}
}

// What is kept no more takes no room, whichever way it went.
func TestTheBooksOfDetailsBalance(t *testing.T) {
	o, old := flooded(t, 100, 20)
	empty := func(when string) {
		t.Helper()
		if m := o.cache; m.taken != 0 || m.details != 0 || len(m.shares) != 0 {
			t.Errorf("%s: %d bytes are taken, %d of details, %d shares", when, m.taken, m.details, len(m.shares))
		}
	}
	o.decide(t, old["quiet several"]) // known, or judged again: it is kept once
	o.Flush("busy")
	if m := o.cache; m.taken != weight(&verdict.Detail{Parts: make([]verdict.Part, 2)}) || len(m.shares) != 1 {
		t.Errorf("%d bytes are taken, %d shares", m.taken, len(m.shares))
	}
	o.Flush("quiet")
	empty("after flushes")
	for n := range 10 {
		o.decide(t, nth("busy", "several", n))
	}
	for n := range 100 { // the oldest go
		o.decide(t, nth("quiet", "plain", n))
	}
	empty("pushed out by plain ones")
	for n := range 10 {
		o.decide(t, nth("busy", "several", n))
	}
	o.Resize(1)
	if m := o.cache; m.taken > m.room {
		t.Errorf("%d bytes are taken of %d", m.taken, m.room)
	}
}
