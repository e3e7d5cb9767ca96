package handoff

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

// Where too many descriptors are on their way nothing is sent, and the connection is as good as
// before.
func TestSendingWhenTooManyAreOnTheirWay(t *testing.T) {
	a, b := pair(t)
	client, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer CloseFDs(client[:])
	release := handofftest.Crowd(t)
	if err := a.SendSession(sample(), client[1]); !errors.Is(err, ErrCrowded) {
		t.Fatalf("%v, want %v", err, ErrCrowded)
	}
	if err := a.Send(TypeAck, SessionRef{Session: "x"}); err != nil {
		t.Fatalf("a message without descriptors: %v", err)
	}
	release()
	if err := a.SendSession(sample(), client[1]); err != nil {
		t.Fatalf("when there is room again: %v", err)
	}
	for _, want := range []Type{TypeAck, TypeSession} {
		m, err := b.Receive()
		if err != nil || m.Type != want {
			t.Fatalf("received %+v, %v; want a %q message", m, err, want)
		}
		CloseFDs(m.FDs)
	}
}

// A process that has no room for what comes with a message loses that, and nothing else.
func TestReceivingWithoutRoom(t *testing.T) {
	for name, room := range map[string]int{"for none": 0, "for one": 1} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			client, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer CloseFDs(client[:])
			for range 2 {
				if err := a.SendSession(sample(), client[1], client[1]); err != nil {
					t.Fatal(err)
				}
			}
			before := openFDs(t)
			restore := handofftest.Exhaust(t, room)
			m, err := b.Receive()
			restore()
			if err != nil || !m.Lost || len(m.FDs) != 0 {
				t.Fatalf("received %+v, %v", m, err)
			}
			if n := openFDs(t) - before; n != 0 {
				t.Errorf("%d descriptors of it are left open", n)
			}
			if r, err := DecodeRecord(m.Body); err != nil || r.Session != sample().Session {
				t.Errorf("its record is %+v, %v", r, err)
			}
			if m, err = b.Receive(); err != nil || m.Lost || len(m.FDs) != 2 {
				t.Fatalf("the next one: %+v, %v", m, err)
			}
			CloseFDs(m.FDs)
		})
	}
}
