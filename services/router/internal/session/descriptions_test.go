package session_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// TestDescriptions has tables altered by the session and by others, with a replica
// that learns of it later, and drivers that describe a statement once and rely on it: every
// row comes as it was described last.
func TestDescriptions(t *testing.T) {
	rows, refused := 0, 0
	for n := range *seeds {
		seed(t, *from+n, func(r *rand.Rand) {
			c := &writer{r: r}
			for range 4 + r.IntN(12) {
				c.described()
			}
			w := newWorld(r, c.out)
			w.o.settings.MaxStatements = 1 + r.IntN(3)
			w.o.settings.Values.Mode = fence.Mode(r.IntN(int(fence.Linear) + 1))
			w.o.s.Start([]handoff.Parameter{{Name: "tz", Value: unset}})
			w.o.perform()
			for {
				es := w.events()
				if len(es) == 0 && w.settled() {
					break
				}
				if len(es) > 0 {
					es[r.IntN(len(es))]()
				}
				if r.IntN(60) == 0 { // another session
					w.cl.writes++
					w.cl.version++
				}
			}
			if p := w.o.s.Phase(); p != session.Idle {
				broken("%s after\n%s", p, (&printer{kinds: clientKinds}).print(c.out))
			}
			a, b := w.rowsAsDescribed()
			rows += a
			refused += b
		})
		if t.Failed() {
			return
		}
	}
	if rows == 0 || refused == 0 {
		t.Errorf("%d rows and %d refusals: the statements are not what they are meant to be", rows, refused)
	}
}

// described writes a sequence about statements that may have been described.
func (c *writer) described() {
	k := c.r.IntN(3)
	name := []string{"", "a", "b"}[k]
	switch c.r.IntN(8) {
	case 0:
		c.send("Query", "alter 0 q0")
	case 1:
		c.send("Query", "value 0 q1")
	case 2, 3:
		if name == "b" && c.once {
			return // it is parsed once, and described only through portals
		}
		c.once = c.once || name == "b"
		if name != "" {
			c.send("Close", "S"+name)
		}
		c.send("Parse", name, []string{"rows 1 d0", "rows 2 d1", "rows 3 d2"}[k])
		if name != "b" {
			c.send("Describe", "S"+name)
		}
		c.send("Sync")
	default:
		c.send("Bind", "", name)
		if c.r.IntN(5) == 0 {
			c.send("Describe", "P")
		}
		c.send("Execute", "")
		if c.r.IntN(3) == 0 {
			c.send("Bind", "", []string{"a", "b"}[c.r.IntN(2)])
			c.send("Execute", "")
		}
		c.send("Sync")
	}
}

// rowsAsDescribed checks rows against the description of them that came last, and
// counts them and the statements refused for that reason.
func (w *world) rowsAsDescribed() (rows, refused int) {
	told := map[string]string{}
	for b := w.got; len(b) > 0; {
		typ, total, err := wire.Header(b)
		if err != nil || total == 0 || total > len(b) {
			broken("%v", err)
		}
		body := b[wire.HeaderSize:total]
		b = b[total:]
		switch typ {
		case wire.RowDescription:
			id, version, _ := strings.Cut(string(body), " ")
			told[id] = version
		case wire.ErrorResponse:
			if bytes.Contains(body, []byte("0A000")) {
				refused++
			}
		case wire.DataRow:
			var r pgproto3.DataRow
			if err := r.Decode(body); err != nil {
				broken("%v", err)
			}
			id, version := string(r.Values[1]), string(r.Values[2])
			if want := told[id]; want != "" && want != version {
				broken("a row of %s comes as %s and was described as %s in\n%s", id, version, want, (&printer{kinds: serverKinds}).print(w.got))
			}
			rows++
		}
	}
	return rows, refused
}
