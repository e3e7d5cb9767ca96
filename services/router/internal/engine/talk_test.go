package engine

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/topology"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// What a server says against a question is a line of the log, without bytes of the protocol.
func TestARefusalIsReadable(t *testing.T) {
	body := []byte("SFATAL\x00VFATAL\x00C57P01\x00Mterminating connection due to administrator command\x00\x00")
	if got, want := refusal(body), "FATAL 57P01: terminating connection due to administrator command"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := refusal([]byte("S")); got == "" {
		t.Error("nothing is said of an illegible one")
	}
}

// hearer is the owner of a talk who takes everything down, up to a message that it cannot use.
type hearer struct {
	talk
	heard []string
	why   error
}

var errUseless = errors.New("of no use")

func (h *hearer) told(typ byte, body []byte) error {
	if typ == wire.ErrorResponse {
		return errUseless
	}
	h.heard = append(h.heard, fmt.Sprintf("%c%s", typ, body))
	return nil
}

func (h *hearer) fail(why error) {
	h.why = why
	h.hangup()
}

// Whole messages are told, however they arrive, up to the end of the connection.
func TestATalk(t *testing.T) {
	e := runEngine(t, elsewhere(), func(*Options) {})
	row, ready := message(wire.DataRow, "a row"), message(wire.ReadyForQuery, "I")
	for _, c := range []struct {
		name  string
		bytes [][]byte
		heard string
		why   error
	}{
		{"an answer", [][]byte{row, ready}, "[Da row ZI]", errClosed},
		{"a part of one", [][]byte{row, ready[:3]}, "[Da row]", errClosed},
		{"a message of no use", [][]byte{row, message(wire.ErrorResponse, ""), ready}, "[Da row]", errUseless},
		{"a wrong length", [][]byte{row, {wire.DataRow, 0, 0, 0, 3}}, "[Da row]", &wire.Error{Type: wire.DataRow, Length: 3}},
		{"nothing", nil, "[]", errClosed},
	} {
		for _, whole := range []bool{true, false} {
			theirs, ours := handofftest.Ends(t)
			h := &hearer{}
			h.e = e
			if err := onLoop(t, e, func() error { return h.adopt(ours, h) }); err != nil {
				t.Fatal(err)
			}
			all := bytes.Join(c.bytes, nil)
			for b, piece := all, 1; len(b) > 0; b = b[piece:] {
				if whole {
					piece = len(b)
				}
				if _, err := unix.Write(theirs, b[:piece]); err != nil && !errors.Is(err, unix.EPIPE) {
					t.Fatal(err)
				}
			}
			_ = unix.Shutdown(theirs, unix.SHUT_RDWR)
			awaitOnLoop(t, e, c.name+": it is over", func() bool { return h.why != nil })
			if got := fmt.Sprint(h.heard); got != c.heard || h.why.Error() != c.why.Error() {
				t.Errorf("%s, whole %v: heard %q, over for %v", c.name, whole, got, h.why)
			}
		}
	}
}

// A connection that was being made to a server which has left the configuration meanwhile says
// nothing of the server that has its place now.
func TestATalkWithAServerThatHasLeft(t *testing.T) {
	e := runEngine(t, elsewhere("replica"), func(*Options) {})
	now, former := lsn.Incarnation{Postmaster: 2, Children: 2}, lsn.Incarnation{Postmaster: 1, Children: 1}
	for name, arrives := range map[string]func(backend int, m *upstream.Made){
		"barrier": func(backend int, m *upstream.Made) {
			l := e.barrier.lineTo(backend)
			e.barrier.leave(backend)
			l.connected(e.servers[backend], m)
		},
		"probe": func(backend int, m *upstream.Made) { e.probe.connected(&serverSite{}, backend, m) },
	} {
		for backend := range 2 {
			_, ours := handofftest.Ends(t)
			run := onLoop(t, e, func() lsn.Incarnation {
				e.tracker.Observe(backend, now, topology.Sight{At: time.Now()})
				arrives(backend, &upstream.Made{FD: ours, Run: former})
				return e.tracker.Incarnation(backend)
			})
			if run != now {
				t.Errorf("%s: server %d runs as %+v", name, backend, run)
			}
		}
	}
}
