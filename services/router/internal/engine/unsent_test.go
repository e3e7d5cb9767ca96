package engine

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// A client that asks and does not read is not listened to any more, also where no server is asked:
// what waits for it is bounded.
func TestAnswersThatNobodyReads(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1))
	p := joinSession(t, e, "asks")
	one := wire.AppendQuery(nil, "SHOW pgpilot.route")
	text := bytes.Repeat(one, 1000)
	for sent, listened := 0, true; listened; {
		n, err := unix.SendmsgN(p.fd, text[sent%len(one):], nil, nil, unix.MSG_DONTWAIT)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		sent += max(0, n)
		unsent := onLoop(t, e, func() int {
			c := e.clients["asks"]
			listened = c.listens()
			return len(c.out)
		})
		if unsent > 4*maxUnsent {
			t.Fatalf("%d bytes wait for a client that reads nothing", unsent)
		}
	}
}
