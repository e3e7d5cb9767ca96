package session_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// TestFaults loses connections, refuses them, cancels and stops at random, and
// checks what holds all the same: whatever the session sends is whole messages in
// the order of the requests, every request has one end, no write runs twice, no
// read starts again once rows of it were shown, and the session is never stuck.
func TestFaults(t *testing.T) {
	outcomes := map[string]int{}
	for n := range *seeds {
		seed(t, *from+n, func(r *rand.Rand) {
			c := &writer{r: r, simple: r.IntN(2) == 0, whole: true}
			for range 1 + r.IntN(8) {
				c.group()
			}
			w := newWorld(r, c.out)
			w.o.settings.PerSession = r.IntN(3) == 0
			w.o.settings.LazyBegin = r.IntN(4) > 0
			w.o.settings.ReadOnlyOnReplicas = r.IntN(4) > 0
			w.o.beginnings.Known, w.o.beginnings.Isolation = true, settings.ReadCommitted
			w.faults = true
			w.o.settings.MaxStatements = 1 + r.IntN(4)
			w.o.settings.Values.Mode = fence.Linear - fence.Mode(r.IntN(5))
			if r.IntN(4) > 0 {
				w.o.s.Start([]handoff.Parameter{{Name: "tz", Value: unset}})
			} else {
				w.o.s.Start(nil)
			}
			w.o.perform()
			for {
				es := w.events()
				if !w.o.closed && r.IntN(25) == 0 {
					es = append(es, w.fault)
				}
				if len(es) == 0 && w.settled() {
					break
				}
				if len(es) > 0 {
					es[r.IntN(len(es))]()
				}
				w.bounded()
			}
			outcomes[w.verify(c)]++
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v", outcomes)
	for _, o := range []string{"closed", "complete", "errors"} {
		if outcomes[o] == 0 {
			t.Errorf("no run ended %s: the faults are not what they are meant to be", o)
		}
	}
}

// fault makes something go wrong.
func (w *world) fault() {
	lent := []session.Slot{}
	for slot, p := range w.conns {
		if p != nil {
			lent = append(lent, session.Slot(slot))
		}
	}
	switch k := w.r.IntN(40); {
	case k < 20 && len(lent) > 0:
		slot := lent[w.r.IntN(len(lent))]
		p := w.conns[slot]
		if p.dead {
			return
		}
		p.dead = true
		p.in = nil
		switch w.r.IntN(3) {
		case 0: // the network: what was on its way is lost
			p.out = p.out[:w.r.IntN(len(p.out)+1)]
		case 1:
			p.say("ErrorResponse", "FATAL", "57P01", "terminating connection due to administrator command")
		case 2:
			p.say("NoticeResponse", "WARNING", "57P02", "terminating connection because of crash of another server process")
		}
	case k < 28 && w.queued != nil:
		w.queued = nil
		w.o.tell(func() { w.o.s.Refuse(&session.Problem{Code: "53300", Message: "no"}) })
	case k < 36:
		w.o.tell(w.o.s.Cancel)
	case k == 36:
		w.o.tell(w.o.s.Stop)
	case k == 37:
		w.o.tell(w.o.s.Kill)
	case k == 38:
		w.o.tell(w.o.s.ClientGone)
	case k == 39 && w.fed == len(w.stream): // or it would be as if it had sent less
		w.o.done = true
		w.o.resume()
	}
}

// verify checks what the client has received, and says how it ended.
func (w *world) verify(c *writer) string {
	phase := w.o.s.Phase()
	ended := phase == session.Closed
	if phase != session.Idle && !ended {
		broken("stuck: %s after\n%s", phase, (&printer{kinds: clientKinds}).print(c.out))
	}
	got := (&printer{kinds: serverKinds}).print(w.got)
	if !ended && !w.o.settings.PerSession && w.conns[session.ReplicaSlot] != nil && strings.HasSuffix(got, "ReadyForQuery I") {
		broken("an idle session keeps a replica outside of a transaction")
	}
	for id, n := range w.cl.ran {
		if n != 1 && !strings.HasPrefix(id, "p") {
			broken("%s ran %d times", id, n)
		}
	}
	last := "" // the id whose rows came last
	seen := map[string]bool{}
	rows, ready, errors, writes, suspended := 0, 0, 0, 0, false
	for b := w.got; len(b) > 0; {
		typ, total, err := wire.Header(b)
		if err != nil || total == 0 || total > len(b) {
			if !ended {
				broken("half a message at the end of\n%s", got)
			}
			break
		}
		body := b[wire.HeaderSize:total]
		b = b[total:]
		switch typ {
		case wire.ReadyForQuery:
			ready++
		case wire.CommandComplete:
			rows, suspended = 0, false // the statement may be bound and executed once more
			if f := strings.Fields(string(body)); f[0] == "write" || f[0] == "copyin" || f[0] == "defer" {
				writes++
			}
		case wire.PortalSuspended:
			suspended = true // and there may be another portal of it
		case wire.ErrorResponse:
			errors++
			var e pgproto3.ErrorResponse
			if err := e.Decode(body); err != nil {
				broken("%v in\n%s", err, got)
			}
			if e.Severity == "FATAL" && (len(b) > 0 || !ended) {
				broken("the session goes on after %q in\n%s", e.Message, got)
			}
		case wire.DataRow:
			var r pgproto3.DataRow
			if err := r.Decode(body); err != nil {
				broken("%v in\n%s", err, got)
			}
			if len(r.Values) < 2 {
				continue
			}
			id, value := string(r.Values[1]), string(r.Values[0])
			if id != last {
				if seen[id] && !strings.HasPrefix(id, "p") {
					broken("%s is answered twice in\n%s", id, got)
				}
				last, rows = id, 0
				seen[id] = true
			}
			if n, err := strconv.Atoi(value); err == nil && n < writes && w.o.settings.Values.Mode.Fenced() && strings.Contains(string(c.out), "value 0 "+id) {
				broken("%s sees %d of the session's %d writes in\n%s", id, n, writes, got)
			}
			if suspended && value == "0" {
				rows = 0
			}
			if strings.Contains(string(c.out), fmt.Sprintf("rows 40 %s", id)) && value != fmt.Sprint(rows) {
				broken("%s starts again in\n%s", id, got)
			}
			rows++
		}
	}
	if ended {
		return "closed"
	}
	if c.simple {
		if want := 1 + strings.Count((&printer{kinds: clientKinds}).print(c.out), "Query"); ready != want {
			broken("%d times ready instead of %d:\n%s\nfor\n%s", ready, want, got, (&printer{kinds: clientKinds}).print(c.out))
		}
	}
	if errors > 0 {
		return "errors"
	}
	return "complete"
}
