package routers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

// A session that cannot be sent since too much is on its way is offered again, over the same
// connection, and to the same router.
func TestSessionsWhenTooMuchIsOnItsWay(t *testing.T) {
	s := newStage(t)
	b := s.router("b", "x")
	client, far := handofftest.Ends(t)
	defer unix.Close(far)
	postponed := func() float64 { return testutil.ToFloat64(s.metrics.handovers.WithLabelValues(string(postponed))) }
	t.Run("for good", func(t *testing.T) {
		release := handofftest.Crowd(t)
		defer release()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.await("it has been tried", func() bool { return postponed() > 1 })
			stop()
		}()
		if err := s.HandOver(ctx, &handoff.Record{Session: "y", User: "u", Database: "d"}, client); !errors.Is(err, ErrNoRouter) {
			t.Errorf("%v, want %v", err, ErrNoRouter)
		}
		<-done
	})
	s.counts("x")
	t.Run("for a while", func(t *testing.T) {
		release := handofftest.Crowd(t)
		done := make(chan struct{})
		before := postponed()
		go func() {
			defer close(done)
			s.await("it has been tried", func() bool { return postponed() > before })
			release()
			b.takes()
		}()
		if err := s.HandOver(t.Context(), &handoff.Record{Session: "y", User: "u", Database: "d"}, client); err != nil {
			t.Error(err)
		}
		<-done
	})
	s.counts("x", "y")
}

// A session that comes back without its descriptors stays with its router.
func TestParkedSessionsWithoutRoom(t *testing.T) {
	s := newStage(t)
	a := s.router("a", "x")
	a.stops()
	s.heard(a)
	restore := func() {}
	a.change = func(payload []byte) []byte {
		restore = handofftest.Exhaust(t, 0)
		return payload
	}
	a.gives("x", handoff.TypeRefuse, nil)
	restore()
	var ref handoff.SessionRef
	if err := a.last.Unmarshal(&ref); err != nil || ref.Alone || ref.Reason != handoff.ErrLost.Error() {
		t.Errorf("refused %+v, %v", ref, err)
	}
	a.change = nil
	s.counts("x")
	a.gives("x", handoff.TypeAck, nil)
}

// The longer there is no room, the more seldom is it asked for.
func TestPostponements(t *testing.T) {
	var last, before, sum time.Duration
	for range 10 {
		before, last = last, longer(last)
		if last < minPostponement || last > maxPostponement || last < before {
			t.Errorf("after %s it is tried again after %s", before, last)
		}
		sum += last
	}
	if last != maxPostponement || sum < 5*maxPostponement {
		t.Errorf("ten postponements take %s, the last %s", sum, last)
	}
}
