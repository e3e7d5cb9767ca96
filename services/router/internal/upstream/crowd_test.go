package upstream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// A server that takes connections and never answers gets a few logins, however many
// connections are wanted, and the others do not wait for it one after another.
func TestAHungServerGetsFewLogins(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
		}
	})
	const wanted = 5 * loginsAtOnce
	c := NewConnector(dial.Server{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port)}, login, lab.Database, 3*time.Second)
	var failed atomic.Int64
	var connecting sync.WaitGroup
	for range wanted {
		connecting.Go(func() {
			if _, err := c.Connect(t.Context(), login, lab.Database, noStartup); err != nil {
				failed.Add(1)
			}
		})
	}
	connecting.Wait()
	c.Close()
	l.Close()
	accepting.Wait()
	for _, c := range conns {
		c.Close()
	}
	if failed.Load() != wanted {
		t.Errorf("%d of %d failed", failed.Load(), wanted)
	}
	if len(conns) != loginsAtOnce {
		t.Errorf("the server got %d connections, want %d", len(conns), loginsAtOnce)
	}
}

// What one caller's patience is must not matter to the others: their reading, and the
// connection for it, go on.
func TestTheWitnessOutlivesItsCallers(t *testing.T) {
	primary := labtest.Start(t, 0).Primary()
	c := connector(t, primary)
	witnesses := func() string {
		m, err := c.ConnectMonitor(t.Context(), "pgpilot-test")
		if err != nil {
			t.Fatal(err)
		}
		return open(t, m).query("SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'pgpilot-router'")
	}
	before := witnesses()
	if before == "" {
		t.Fatal("no witness")
	}
	impatient, stop := context.WithCancel(t.Context())
	stop()
	for range 20 {
		if _, err := c.witness.read(impatient); !errors.Is(err, context.Canceled) && err != nil {
			t.Errorf("impatient: %v", err)
		}
		if run, err := c.witness.read(t.Context()); err != nil || run.Postmaster == 0 {
			t.Errorf("patient: %+v, %v", run, err)
		}
	}
	if after := witnesses(); after != before {
		t.Errorf("the witness is %s, was %s", after, before)
	}
	c.Close()
	if _, err := c.witness.read(t.Context()); !errors.Is(err, errGone) {
		t.Errorf("after close: %v", err)
	}
}
