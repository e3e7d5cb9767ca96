package engine

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// A cancel request that is made again is for the statement that it was made for: one that
// the client has sent behind that, and that runs by then, goes on.
func TestARepeatedRequestHitsNoOtherStatement(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1))
	p := joinSession(t, e, "pipelines")
	p.exchange(wire.AppendQuery(nil, "BEGIN"))
	p.exchange(wire.AppendQuery(nil, "VALUES (1)"))
	run := func(text string) []byte {
		return sequence(message(wire.Parse, "\x00"+text+"\x00\x00\x00"), bindOf(""), executeAll, message(wire.Sync, ""))
	}
	both := append(run("SELECT pg_sleep(0.05)"), run("SELECT pg_sleep(1)")...)
	if n, err := unix.Write(p.fd, both); err != nil || n != len(both) {
		t.Fatalf("sent %d bytes of %d: %v", n, len(both), err)
	}
	awaitOnLoop(t, e, "the first statement runs", func() bool { return e.clients["pipelines"].s.Phase() == session.Busy })
	onLoop(t, e, func() bool { e.clients["pipelines"].insist(0); return true })
	p.untilReady() // which fails for an error
	p.untilReady()
}

// A cancel request that comes while one before it is under way is for what the client has
// sent since, which waits until that one is over; and for nothing that it sends later.
func TestASecondRequestWhileOneIsUnderWay(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1))
	p := joinSession(t, e, "asks twice")
	if err := unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}); err != nil {
		t.Fatal(err)
	}
	key := onLoop(t, e, func() handoff.CancelKey { return e.clients["asks twice"].s.Record().Cancel })
	over := make(chan bool, 2)
	underway := func(more int) { // so to speak
		onLoop(t, e, func() bool {
			c := e.clients["asks twice"]
			if s := c.conns[c.s.Slot()]; more > 0 {
				s.cancels += more
			} else {
				s.canceled()
			}
			return true
		})
	}
	p.exchange(wire.AppendQuery(nil, "BEGIN"))
	p.exchange(wire.AppendQuery(nil, "VALUES (1)"))

	underway(1)
	e.Cancel(key, func(found bool) { over <- found })
	underway(0)
	if !<-over {
		t.Error("the session is not found")
	}
	p.exchange(wire.AppendQuery(nil, "VALUES (2)")) // which fails for an error

	underway(1)
	asleep := wire.AppendQuery(nil, "VALUES (pg_sleep(600))")
	if n, err := unix.Write(p.fd, asleep); err != nil || n != len(asleep) {
		t.Fatalf("sent %d bytes of %d: %v", n, len(asleep), err)
	}
	e.Cancel(key, func(found bool) { over <- found })
	onLoop(t, e, func() bool {
		if c := e.clients["asks twice"]; c.s.Phase() != session.Idle {
			t.Errorf("the session goes on, and is %s", c.s.Phase())
		}
		return true
	})
	select {
	case <-over:
		t.Error("it is over before there was anything to cancel")
	default:
	}
	underway(0)
	if said := p.hears(); !bytes.Contains(said, []byte("\x00C57014\x00")) {
		t.Errorf("the statement is answered with %q", said)
	}
	if !<-over {
		t.Error("the session is not found")
	}
	p.exchange(wire.AppendQuery(nil, "ROLLBACK"))
	p.exchange(wire.AppendQuery(nil, "VALUES (3)"))
}

// hears reads an answer, whatever it says.
func (p *peer) hears() []byte {
	p.t.Helper()
	for filled := 0; ; {
		n, err := unix.Read(p.fd, p.buf[filled:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0:
			p.t.Fatalf("read an answer: %d bytes, %v", n, err)
		}
		filled += n
		for at := 0; at < filled; {
			typ, total, err := wire.Header(p.buf[at:filled])
			if err != nil {
				p.t.Fatal(err)
			}
			if total == 0 || at+total > filled {
				break
			}
			if at += total; typ == wire.ReadyForQuery {
				return p.buf[:at]
			}
		}
	}
}
