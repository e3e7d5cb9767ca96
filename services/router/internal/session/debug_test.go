package session_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

func TestDebug(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("SEED"))
	if err != nil {
		t.Skip()
	}
	faults := os.Getenv("FAULTS") != ""
	seed(t, uint64(n), func(r *rand.Rand) {
		c := &writer{r: r}
		var w *world
		if faults {
			c.simple = r.IntN(2) == 0
			for range 1 + r.IntN(8) {
				c.group()
			}
			w = newWorld(r, c.out)
			w.o.settings.PerSession = r.IntN(3) == 0
			w.o.settings.MaxStatements = 1 + r.IntN(4)
			w.o.settings.Strict = r.IntN(4) > 0
		} else {
			for range 1 + r.IntN(6) {
				c.group()
			}
			w = newWorld(r, c.out)
			w.o.settings.PerSession = r.IntN(3) == 0
			w.o.settings.MaxStatements = 1 + r.IntN(4)
		}
		act := w.o.act
		pr := [3]*printer{{kinds: clientKinds}, {kinds: clientKinds}, {kinds: serverKinds}}
		w.o.act = func(a session.Action, data []byte) {
			switch a.Op {
			case session.OpToClient:
				fmt.Println("  client<", pr[2].print(data))
			case session.OpToServer:
				fmt.Println("  ", a.Slot, "<", pr[a.Slot].print(data))
			default:
				fmt.Println("  ", a.Op, a.Slot, a.How, a.Request.Reason, string(data))
			}
			act(a, data)
		}
		fmt.Println((&printer{kinds: clientKinds}).print(c.out))
		if !faults || r.IntN(4) > 0 {
			w.o.s.Start([]handoff.Parameter{})
		} else {
			w.o.s.Start(nil)
		}
		w.o.perform()
		for {
			es := w.events()
			if faults && !w.o.closed && r.IntN(25) == 0 {
				es = append(es, func() { fmt.Println("FAULT"); w.fault() })
			}
			if len(es) == 0 && w.settled() {
				break
			}
			if len(es) > 0 {
				es[r.IntN(len(es))]()
			}
			fmt.Println("=", w.o.s.Phase(), len(w.o.clientUnread))
		}
		fmt.Println(w.cl.ran)
	})
}
