package handoff

import (
	"runtime"
	"testing"
	"time"
)

// acks receives messages until one says it is the last, and gives how many there are.
func acks(t *testing.T, c *Conn, last string) (n int) {
	t.Helper()
	for {
		m, err := c.Receive()
		var ref SessionRef
		if err != nil || m.Type != TypeAck || m.Unmarshal(&ref) != nil {
			t.Fatalf("received %+v, %v", m, err)
		}
		n++
		if ref.Session == last {
			return n
		}
	}
}

// What is not waited for is sent whole or not at all.
func TestTrySend(t *testing.T) {
	a, b := pair(t)
	sent := 0
	for a.TrySend(TypeAck, SessionRef{Session: "x"}) {
		sent++
	}
	var err error
	done := make(chan struct{})
	go func() { // waits for room
		defer close(done)
		err = a.Send(TypeAck, SessionRef{Session: "last"})
	}()
	for a.mu.TryLock() {
		a.mu.Unlock()
		runtime.Gosched()
	}
	if a.TrySend(TypeAck, SessionRef{Session: "between"}) {
		t.Error("it is sent while somebody else is sending")
	}
	if n := acks(t, b, "last"); n != sent+1 {
		t.Errorf("%d messages arrive, sent were %d and one more", n, sent)
	}
	if <-done; err != nil {
		t.Error(err)
	}
	if err := a.conn.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if !a.TrySend(TypeAck, SessionRef{Session: "later"}) {
		t.Error("nothing is sent any more after the deadline of an earlier message")
	}
	acks(t, b, "later")
	b.Close()
	if a.TrySend(TypeAck, SessionRef{Session: "x"}) {
		t.Error("it is sent to nobody")
	}
	a.Close()
	if a.TrySend(TypeAck, SessionRef{Session: "x"}) {
		t.Error("it is sent over a closed connection")
	}
}
