package session_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// direct gives what the client gets from a server without anything in between, and whether
// that waits for more: it discards what comes up to a Sync, or copies in.
func direct(stream []byte) (out []byte, waits bool) {
	p := newPostgres(&cluster{ran: map[string]int{}}, false)
	p.direct = true
	p.in = append(p.in, stream...)
	for p.step() {
	}
	return p.out, p.skipping || p.copying != ""
}

// seed runs f with one seed, and fails the test with it if a promise is broken.
func seed(t *testing.T, n uint64, f func(r *rand.Rand)) {
	t.Helper()
	defer func() {
		if e := recover(); e != nil {
			p, ok := e.(promise)
			if !ok {
				t.Logf("seed %d", n)
				panic(e)
			}
			t.Errorf("seed %d: %s", n, string(p))
		}
	}()
	f(rand.New(rand.NewPCG(n, 1)))
}

var (
	seeds = flag.Uint64("seeds", 4000, "how many random courses the model tests take")
	from  = flag.Uint64("from", 0, "the first of them")
)

// TestLikeADirectConnection compares what a client of the router gets with what
// it would get from the server, byte for byte, with every order of events, every
// way of cutting the streams, and reads going to a replica that lags.
func TestLikeADirectConnection(t *testing.T) {
	for n := range *seeds {
		seed(t, *from+n, func(r *rand.Rand) { likeDirect(r, false, false, nil) })
		if t.Failed() {
			return
		}
	}
}

// TestForgottenLikeADirectConnection does so with what servers forget in the middle of a
// sequence.
func TestForgottenLikeADirectConnection(t *testing.T) {
	for n := range min(*seeds, 1000) {
		seed(t, *from+n, func(r *rand.Rand) {
			c := &writer{r: r}
			for range 1 + r.IntN(3) {
				c.story(forgetting)
			}
			playedOut(r, c, false, false, nil)
		})
	}
}

// likeDirect runs one random course. If moves is set the session goes on, at safe points
// taken by chance, as one made of its record, in which tamper has changed something; blind
// says that only what its client sees counts. It gives how often it has moved.
func likeDirect(r *rand.Rand, moves, blind bool, tamper func(*handoff.Live)) int {
	c := &writer{r: r}
	switch {
	case moves && r.IntN(8) == 0:
		c.story(alone)
	default:
		for range 1 + r.IntN(6) {
			if tamper != nil || moves && r.IntN(2) == 0 {
				c.story(stories)
				continue
			}
			c.group()
		}
	}
	return playedOut(r, c, moves, blind, tamper)
}

// playedOut runs what has been written.
func playedOut(r *rand.Rand, c *writer, moves, blind bool, tamper func(*handoff.Live)) int {
	w := newWorld(r, c.out)
	w.moves, w.tamper, w.o.blind = moves, tamper, blind
	w.o.settings.PerSession = r.IntN(3) == 0
	w.o.settings.LazyBegin = r.IntN(4) > 0
	w.o.settings.ReadOnlyOnReplicas = r.IntN(4) > 0
	w.o.beginnings = session.Beginnings{Known: true, IdleInTransaction: time.Minute, Isolation: settings.ReadCommitted}
	w.o.settings.MaxStatements = 1 + r.IntN(4)
	w.o.s.Start([]handoff.Parameter{{Name: "tz", Value: unset}})
	w.o.perform()
	greeting := len(w.got)
	for {
		es := w.events()
		if len(es) == 0 && w.settled() {
			break
		}
		if len(es) > 0 {
			es[r.IntN(len(es))]()
		}
		w.bounded()
	}
	want, waits := direct(c.out)
	if p := w.o.s.Phase(); p != session.Idle && p != session.Closed && (!waits || len(w.o.clientUnread) > 0) {
		broken("stuck: %s with %d bytes unread and %d to come after\n%s\n%s", p, len(w.o.clientUnread), len(w.stream)-w.fed, (&printer{kinds: serverKinds}).print(w.got), (&printer{kinds: clientKinds}).print(c.out))
	}
	if !bytes.Equal(alike(w.got[greeting:]), alike(want)) {
		p, q := printer{kinds: serverKinds}, printer{kinds: serverKinds}
		broken("the client sent\n%s\nand got\n%s\ninstead of\n%s", (&printer{kinds: clientKinds}).print(c.out), p.print(w.got[greeting:]), q.print(want))
	}
	if moves && w.o.s.Phase() == session.Idle && r.IntN(4) == 0 {
		w.o.client(message(wire.Terminate, ""))
	}
	return w.moved
}

// alike writes what is no difference in one way: in a failed transaction a portal
// of DEALLOCATE, which no server has, is missing; on a server it cannot be run.
func alike(out []byte) []byte {
	status := byte(wire.Idle)
	var like []byte
	for len(out) > 0 {
		typ, total, err := wire.Header(out)
		if err != nil || total == 0 || total > len(out) {
			return append(like, out...)
		}
		msg := out[:total]
		out = out[total:]
		switch {
		case typ == wire.ReadyForQuery:
			status = msg[total-1]
		case typ == wire.NoticeResponse && bytes.Contains(msg, []byte("MSET LOCAL ")):
			continue // which of the statements before it are a block with it, the model does not know
		case typ == wire.ErrorResponse && status == wire.Failed && bytes.Contains(msg, []byte("C34000\x00")):
			msg, err = encode(serverKinds, []string{"ErrorResponse", "ERROR", "25P02", `"` + abortedMessage})
			if err != nil {
				panic(err)
			}
		}
		like = append(like, msg...)
	}
	return like
}

// settled reports that chance alone did not keep the list of events empty.
func (w *world) settled() bool {
	return !w.awaiting
}

// bounded checks that nothing piles up, and that it comes to an end.
func (w *world) bounded() {
	if w.steps++; w.steps > 100_000 {
		broken("the session goes round in circles with %d bytes unread", len(w.o.clientUnread))
	}
	if n := len(w.o.clientUnread); n > len(w.stream) || w.fed == len(w.stream) && w.o.s.Phase() == session.Busy && n > 0 && w.o.s.Reads() && len(w.o.clientUnread) > 5000 {
		broken("%d bytes of the client are unread", n)
	}
}
