package intake

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

func TestHello(t *testing.T) {
	st := newStage(t)
	st.set(func() { st.owned = []string{"a", "b"} })
	_, h := st.connect(t)
	if h.V != handoff.ProtocolVersion || h.Service != rundir.Router || h.ID != "7" || !slices.Equal(h.Sessions, []string{"a", "b"}) {
		t.Errorf("%+v", h)
	}
	other := st.dial(t)
	other.hello(handoff.ProtocolVersion + 1)
	other.closed()
	rude := st.dial(t)
	if err := rude.Send(handoff.TypeCancel, handoff.CancelKey{PID: 1}); err != nil {
		t.Fatal(err)
	}
	rude.closed()
	st.set(func() {
		if len(st.canceled) > 0 {
			t.Error("a cancel request before the greeting was obeyed")
		}
	})
}

func TestSessionAdopted(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	client := l.session("s1", 1)
	var ref handoff.SessionRef
	l.expect(handoff.TypeAck, &ref)
	if ref.Session != "s1" {
		t.Errorf("acknowledged %+v", ref)
	}
	st.await(t, "the session is owned", func() bool { return slices.Equal(st.owned, []string{"s1"}) })
	st.set(func() {
		if _, err := unix.Write(st.arrived["s1"][0], []byte("hi")); err != nil {
			t.Fatal(err)
		}
	})
	b := make([]byte, 4)
	if n, err := unix.Read(client, b); err != nil || string(b[:n]) != "hi" {
		t.Errorf("the client reads %q, %v", b[:n], err)
	}
	if err := l.Send(handoff.TypeCancel, handoff.CancelKey{PID: 5, Secret: []byte{6}}); err != nil {
		t.Fatal(err)
	}
	st.await(t, "the cancel request is there", func() bool { return len(st.canceled) == 1 && st.canceled[0].PID == 5 })
	if err := l.Send(handoff.TypeLeave, handoff.Leave{Sessions: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Send(handoff.TypeShed, handoff.Shed{Sessions: 3}); err != nil {
		t.Fatal(err)
	}
	st.await(t, "sessions are to be given away", func() bool { return st.shed == 3 })
	st.await(t, "sessions are told to end", func() bool { return slices.Equal(st.leaving, []string{"a", "b"}) })
}

// A cancel request is answered when it is over, and only one that asks for it.
func TestCancelAnswered(t *testing.T) {
	st := newStage(t)
	l, h := st.connect(t)
	if !h.Answers {
		t.Error("the router does not say that it answers")
	}
	for _, n := range []uint64{0, 8, 9} {
		if err := l.Send(handoff.TypeCancel, handoff.Cancel{CancelKey: handoff.CancelKey{PID: 5, Secret: []byte{6}}, Request: n}); err != nil {
			t.Fatal(err)
		}
	}
	st.await(t, "the cancel requests are there", func() bool { return len(st.over) == 3 && string(st.canceled[2].Secret) == "\x06" })
	for i, found := range []bool{true, false, true} {
		st.over[i](found)
	}
	for _, want := range []handoff.Canceled{{Request: 8}, {Request: 9, Found: true}} {
		var got handoff.Canceled
		if l.expect(handoff.TypeCanceled, &got); got != want {
			t.Errorf("answered %+v, want %+v", got, want)
		}
	}
}

func TestSessionRefused(t *testing.T) {
	st := newStage(t)
	st.set(func() { st.refuse = true })
	l, _ := st.connect(t)
	client := l.session("s1", 1)
	var ref handoff.SessionRef
	l.expect(handoff.TypeRefuse, &ref)
	if ref.Session != "s1" || ref.Reason == "" {
		t.Errorf("refused %+v", ref)
	}
	abandoned(t, client)
	// The connection goes on.
	st.set(func() { st.refuse = false })
	l.session("s2", 1)
	l.expect(handoff.TypeAck, &ref)
}

// Messages that cannot be a session's leave no descriptor behind.
func TestBadMessagesLeakNothing(t *testing.T) {
	st := newStage(t)
	t.Run("too many descriptors", func(t *testing.T) {
		l, _ := st.connect(t)
		client := l.session("s1", 2)
		var ref handoff.SessionRef
		l.expect(handoff.TypeRefuse, &ref)
		if ref.Session != "s1" || !strings.Contains(ref.Reason, "2 descriptors") {
			t.Errorf("refused %+v", ref)
		}
		abandoned(t, client)
	})
	t.Run("no descriptor", func(t *testing.T) {
		l, _ := st.connect(t)
		l.session("s1", 0)
		var ref handoff.SessionRef
		l.expect(handoff.TypeRefuse, &ref)
	})
	for name, typ := range map[string]handoff.Type{
		"unreadable record": handoff.TypeSession, "unknown message": '?', "descriptor with a cancel request": handoff.TypeCancel,
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := st.connect(t)
			client, far := handofftest.Ends(t)
			if err := l.Send(typ, "nonsense", far); err != nil && !errors.Is(err, unix.EPIPE) { // it may be refused at once
				t.Fatal(err)
			}
			_ = unix.Close(far)
			abandoned(t, client)
			if typ == handoff.TypeSession {
				l.closed() // the listener gives what is pending to another router
				return
			}
			l.session("s1", 1)
			var ref handoff.SessionRef
			l.expect(handoff.TypeAck, &ref)
		})
	}
	t.Run("descriptor with the greeting", func(t *testing.T) {
		l := st.dial(t)
		client, far := handofftest.Ends(t)
		if err := l.Send(handoff.TypeHello, handoff.Hello{V: handoff.ProtocolVersion}, far); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(far)
		abandoned(t, client)
	})
	t.Run("torn", func(t *testing.T) {
		l, _ := st.connect(t)
		client, far := handofftest.Ends(t)
		if _, _, err := l.raw.WriteMsgUnix([]byte{0, 0, 0, 99, byte(handoff.TypeSession), '{'}, unix.UnixRights(far), nil); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(far)
		l.Close()
		abandoned(t, client)
	})
}

// Every listener hears of every end: limits are kept by each of them.
func TestEndedReachesEveryListener(t *testing.T) {
	st := newStage(t)
	a, _ := st.connect(t)
	b, _ := st.connect(t)
	st.s.Ended("s1")
	for _, l := range []*listener{a, b} {
		var e handoff.Ended
		l.expect(handoff.TypeEnded, &e)
		if !slices.Equal(e.Sessions, []string{"s1"}) {
			t.Errorf("ended %v", e.Sessions)
		}
	}
	// One goes, the other still hears.
	a.Close()
	st.s.Ended("s2")
	var e handoff.Ended
	b.expect(handoff.TypeEnded, &e)
	// It comes back: what has ended meanwhile is not in the list of what is here.
	st.set(func() { st.owned = []string{"s3"} })
	again, h := st.connect(t)
	if !slices.Equal(h.Sessions, []string{"s3"}) {
		t.Errorf("the list after a reconnect is %v", h.Sessions)
	}
	st.s.Ended("s3")
	again.expect(handoff.TypeEnded, &e)
	if !slices.Equal(e.Sessions, []string{"s3"}) {
		t.Errorf("ended %v", e.Sessions)
	}
}

// A session that ends while the greeting is being made is in the greeting's list.
// Heard of before the greeting, its end would be forgotten, and the session counted
// for ever.
func TestEndedDuringTheGreeting(t *testing.T) {
	st := newStage(t)
	hold := make(chan struct{})
	st.set(func() { st.owned, st.hold = []string{"s1"}, hold })
	l := st.dial(t)
	l.hello(handoff.ProtocolVersion)
	for linked := false; !linked; { // until the connection is known
		st.s.mu.Lock()
		linked = len(st.s.links) > 0
		st.s.mu.Unlock()
	}
	st.s.Ended("s1")
	close(hold)
	var h handoff.Hello
	l.expect(handoff.TypeHello, &h)
	if !slices.Equal(h.Sessions, []string{"s1"}) {
		t.Errorf("the greeting lists %v", h.Sessions)
	}
	var e handoff.Ended
	l.expect(handoff.TypeEnded, &e)
}

// A listener that connects while the router gives its sessions away is told that it does: it
// offers none, and takes those that are left.
func TestListenerThatComesAtTheEnd(t *testing.T) {
	st := newStage(t)
	early, _ := st.connect(t)
	st.s.Stopping()
	early.expect(handoff.TypeStopping, &struct{}{})
	late, _ := st.connect(t)
	late.expect(handoff.TypeStopping, &struct{}{})
}

// A session whose acknowledgement cannot leave stays with the listener.
func TestDisowned(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	gone := make(chan struct{})
	st.set(func() { st.adopting = func() { <-gone } })
	client := l.session("s1", 1)
	l.Close()
	close(gone)
	st.await(t, "the session is left to the listener", func() bool { return slices.Equal(st.disowned, []string{"s1"}) })
	abandoned(t, client)
	st.set(func() {
		if len(st.owned) > 0 {
			t.Errorf("%v are owned", st.owned)
		}
	})
}

func TestCloseEndsConnections(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	st.s.Close()
	l.closed()
}

// The protocol is JSON with known names: another release must be able to read it.
func TestGreetingOnTheWire(t *testing.T) {
	st := newStage(t)
	l := st.dial(t)
	l.hello(handoff.ProtocolVersion)
	m, err := l.Receive()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(m.Body, &got); err != nil {
		t.Fatal(err)
	}
	if got["v"] != float64(1) || got["service"] != "router" || got["id"] != "7" {
		t.Errorf("%s", m.Body)
	}
}

// Connections that come and go leave nothing open.
func TestNoDescriptorsLeft(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	before := openFDs(t)
	for range 20 {
		other, _ := st.connect(t)
		other.session("x", 1)
		var ref handoff.SessionRef
		other.expect(handoff.TypeAck, &ref)
		st.await(t, "the session is owned", func() bool { return slices.Contains(st.owned, "x") })
		st.set(func() {
			handoff.CloseFDs(st.arrived["x"])
			delete(st.arrived, "x")
			st.owned = nil
		})
		other.Close()
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		st.s.mu.Lock()
		n := len(st.s.links)
		st.s.mu.Unlock()
		// The clients' ends are closed when the test ends.
		if n == 1 && openFDs(t) <= before+20 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d links and %d descriptors more", n-1, openFDs(t)-before-20)
		}
	}
	st.s.Ended("y")
	var e handoff.Ended
	l.expect(handoff.TypeEnded, &e)
}
