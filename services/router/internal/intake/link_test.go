package intake

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// An acknowledgement leaves at once where nothing is to be sent before it, and never before
// what is.
func TestAcknowledgedAtOnce(t *testing.T) {
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"}
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.DialUnix("unix", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	other := &listener{t, handoff.NewConn(far), far}
	defer other.Close()
	k := newLink(handoff.NewConn(near), newRouter(), slog.New(slog.DiscardHandler)) // nobody sends what is queued
	acks := func(session string) {
		t.Helper()
		if !k.TryAck(session) {
			t.Fatalf("%s is not acknowledged", session)
		}
		var ref handoff.SessionRef
		if other.expect(handoff.TypeAck, &ref); ref.Session != session {
			t.Fatalf("acknowledged %+v", ref)
		}
	}
	waits := func(why string) {
		t.Helper()
		if k.TryAck("x") {
			t.Errorf("it is acknowledged though %s", why)
		}
	}
	acks("s1")
	for why, add := range map[string]func(){
		"the greeting is queued":         func() { k.greet(handoff.Hello{}) },
		"an acknowledgement is queued":   func() { k.Ack("s2") },
		"a refusal is queued":            func() { k.Refuse("s2", handoff.ErrLost) },
		"news are queued":                func() { k.tell(handoff.TypeMoved, "s2") },
		"an offer is queued":             func() { k.Offer(&handoff.Record{}, nil, func(Outcome) {}) },
		"a cancel request is queued":     func() { k.Cancel(handoff.CancelKey{}, func() {}) },
		"the end of a session is queued": func() { k.Leave("s2") },
		"an answer is queued":            func() { k.canceled(1, true) },
		"it is queued that none comes":   func() { k.push(func(q *linkQueue) { q.stopping = true }) },
	} {
		add()
		waits(why)
		k.take()
		waits(why + " and being sent")
		k.sent()
		acks("s3")
	}
	k.close()
	waits("the link is closed")
}
