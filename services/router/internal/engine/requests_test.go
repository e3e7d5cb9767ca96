package engine

import (
	"testing"

	"golang.org/x/sys/unix"

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
