package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/poll"
	"github.com/pgpilot/pgpilot/services/router/internal/upstream"
)

// returned gives the pool of the test's login on the primary a connection that comes back
// with an open transaction. What it gives is the server's end of it, at which ROLLBACK has
// been read.
func returned(t *testing.T, e *Engine) (fd int) {
	t.Helper()
	return comesBack(t, e, func(s *server) { s.opened = true }, "ROLLBACK")
}

// comesBack does so with one in the given state, at whose server the statements have been
// read.
func comesBack(t *testing.T, e *Engine, as func(*server), read ...string) (fd int) {
	t.Helper()
	theirs, ours := handofftest.Ends(t)
	err := onLoop(t, e, func() error {
		p := e.siteOf(0, upstream.Login{User: lab.User, Database: lab.Database})
		s := &server{site: p, served: true}
		s.Run, s.Made = e.tracker.Run(0), e.now
		if err := s.open(e, ours, s, poll.In); err != nil {
			return err
		}
		p.Adopt()
		p.servers[s] = struct{}{}
		as(s)
		s.comeBack()
		e.runReady()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for _, sql := range read {
		want = wire.AppendQuery(want, sql)
	}
	got := make([]byte, len(want)+1)
	if n, err := unix.Read(theirs, got); err != nil || string(got[:n]) != string(want) {
		t.Fatalf("the server was sent %q, %v; want %q", got[:max(n, 0)], err, want)
	}
	return theirs
}

var (
	rolledBack = message(wire.CommandComplete, "ROLLBACK\x00")
	readyIdle  = message(wire.ReadyForQuery, "I")
)

// A connection that comes back with an open transaction is of use again only if its server
// has answered that it has ended it, and nothing else (rules 6 and 7).
func TestAnOpenConnectionIsEndedOrClosed(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1))
	cleaned(t, e, func() int { return returned(t, e) }, []cleaning{
		{"ended", [][]byte{rolledBack, readyIdle}, true},
		{"there was none", [][]byte{message(wire.NoticeResponse, "SWARNING\x00VWARNING\x00C25P01\x00Mthere is no transaction in progress\x00\x00"), rolledBack, readyIdle}, true},
		{"its settings are what they were", [][]byte{message(wire.ParameterStatus, "TimeZone\x00UTC\x00"), rolledBack, readyIdle}, true},
		{"an error", [][]byte{message(wire.ErrorResponse, "SERROR\x00VERROR\x00CXX000\x00Mno\x00\x00"), readyIdle}, false},
		{"told to stop", [][]byte{message(wire.ErrorResponse, "SFATAL\x00VFATAL\x00C57P01\x00Mterminating connection\x00\x00")}, false},
		{"still open", [][]byte{rolledBack, message(wire.ReadyForQuery, "T")}, false},
		{"not answered", [][]byte{readyIdle}, false},
		{"illegible", [][]byte{rolledBack, message(wire.ReadyForQuery, "")}, false},
		{"more than asked for", [][]byte{rolledBack, readyIdle, readyIdle}, false},
		{"a wrong length", [][]byte{{wire.CommandComplete, 0, 0, 0, 1}}, false},
		{"gone", nil, false},
	})
}

// So is one that has to forget everything, and gets back the role that its login begins with
// (rule 20).
func TestAUsedConnectionIsCleanedOrClosed(t *testing.T) {
	e := startEngine(t, labtest.Start(t, 1))
	discarded, reset := message(wire.CommandComplete, "DISCARD ALL\x00"), message(wire.CommandComplete, "RESET\x00")
	no := message(wire.ErrorResponse, "SERROR\x00VERROR\x00CXX000\x00Mno\x00\x00")
	cleaned(t, e, func() int {
		return comesBack(t, e, func(s *server) { s.used = true }, "DISCARD ALL", "RESET ROLE")
	}, []cleaning{
		{"cleaned", [][]byte{discarded, readyIdle, reset, readyIdle}, true},
		{"the second not answered", [][]byte{discarded, readyIdle, readyIdle}, false},
		{"the first not answered", [][]byte{readyIdle, reset, readyIdle}, false},
		{"the first an error", [][]byte{no, readyIdle, reset, readyIdle}, false},
		{"the second an error", [][]byte{discarded, readyIdle, no, readyIdle}, false},
		{"in a transaction", [][]byte{discarded, message(wire.ReadyForQuery, "T"), reset, readyIdle}, false},
		{"more than asked for", [][]byte{discarded, readyIdle, reset, readyIdle, readyIdle}, false},
	})
}

// cleaning is what a server answers, and whether the connection is of use afterwards.
type cleaning struct {
	name   string
	answer [][]byte
	kept   bool
}

// cleaned has the connections that come back answered, at once and byte by byte.
func cleaned(t *testing.T, e *Engine, comeBack func() int, cs []cleaning) {
	t.Helper()
	for _, c := range cs {
		for _, whole := range []bool{true, false} {
			fd := comeBack()
			all := bytes.Join(c.answer, nil)
			piece := len(all)
			if !whole {
				piece = 1
			}
			for b := all; len(b) > 0; b = b[min(piece, len(b)):] {
				if _, err := unix.Write(fd, b[:min(piece, len(b))]); err != nil && !errors.Is(err, unix.EPIPE) {
					t.Fatal(err)
				}
			}
			if c.answer == nil {
				_ = unix.Shutdown(fd, unix.SHUT_RDWR)
			}
			p := onLoop(t, e, func() *site { return e.pools[poolKey{User: lab.User, Database: lab.Database}] })
			awaitOnLoop(t, e, c.name+": it has come back or is closed", func() bool {
				_, lent, _ := p.Counts()
				return lent == 0
			})
			kept := onLoop(t, e, func() bool { // and makes room for the next one
				s, idle := p.Oldest()
				if idle {
					p.forget(s)
				}
				return idle
			})
			if kept != c.kept && (whole || c.kept) {
				t.Errorf("%s, whole %v: kept %v, want %v", c.name, whole, kept, c.kept)
			}
		}
	}
}

// Who waits for the place of such a connection gets a new one when it is closed, also when
// its server never answers.
func TestWhoWaitsForAnOpenConnection(t *testing.T) {
	for name, end := range map[string]func(*Engine, int){
		"refused": func(_ *Engine, fd int) {
			_, _ = unix.Write(fd, message(wire.ErrorResponse, "SERROR\x00VERROR\x00CXX000\x00Mno\x00\x00"))
		},
		"gone": func(_ *Engine, fd int) { _ = unix.Shutdown(fd, unix.SHUT_RDWR) },
		"never answered": func(e *Engine, _ int) {
			e.Post(func() {
				e.now = e.now.Add(resetTimeout)
				e.timers.Run(e.now)
				e.now = time.Now()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := startEngine(t, labtest.Start(t, 1), func(c *config.Config) {
				c.Pool.MaxSize = 1
				c.Pool.AcquireTimeout = config.Duration(time.Hour)
			})
			fd := returned(t, e)
			peer := bringSession(t, e, "waits", lab.User, lab.Database)
			awaitOnLoop(t, e, "the session waits", func() bool {
				return e.pools[poolKey{User: lab.User, Database: lab.Database}].Waiters() == 1
			})
			end(e, fd)
			peer.untilReady()
		})
	}
}
