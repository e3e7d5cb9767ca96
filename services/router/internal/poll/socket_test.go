package poll

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair gives the two ends of a stream. Both are blocking: nothing here may rely
// on the mode of a descriptor, which other processes share.
func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

func closing(t *testing.T, fds ...int) {
	t.Cleanup(func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	})
}

func TestRecvAndSend(t *testing.T) {
	a, b := pair(t)
	closing(t, a, b)
	var buf [16]byte
	if n, st := Recv(a, buf[:]); st != Again || n != 0 {
		t.Fatalf("nothing is there: %d, %v; want Again", n, st)
	}
	if n, st := Send(b, []byte("hello")); st != OK || n != 5 {
		t.Fatalf("sent %d, %v", n, st)
	}
	if n, st := Recv(a, buf[:3]); st != OK || string(buf[:n]) != "hel" {
		t.Fatalf("received %q, %v", buf[:n], st)
	}
	if n, st := Recv(a, buf[:]); st != OK || string(buf[:n]) != "lo" {
		t.Fatalf("received %q, %v", buf[:n], st)
	}
}

// A full socket takes part of the bytes, then none, until its peer has read.
func TestSendFillsUp(t *testing.T) {
	a, b := pair(t)
	closing(t, a, b)
	big := bytes.Repeat([]byte("x"), 1<<20)
	sent := 0
	for {
		n, st := Send(a, big)
		if st == Again {
			break
		}
		if st != OK {
			t.Fatalf("after %d bytes: %v", sent, st)
		}
		sent += n
	}
	got := 0
	buf := make([]byte, 64<<10)
	for got < sent {
		n, st := Recv(b, buf)
		if st != OK {
			t.Fatalf("after %d of %d bytes: %v", got, sent, st)
		}
		got += n
	}
	if n, st := Send(a, big); st != OK || n == 0 {
		t.Fatalf("after the peer has read: %d, %v; want OK", n, st)
	}
}

func TestPeerClosed(t *testing.T) {
	a, b := pair(t)
	closing(t, a)
	if _, st := Send(b, []byte("bye")); st != OK {
		t.Fatal(st)
	}
	_ = unix.Close(b)
	var buf [16]byte
	if n, st := Recv(a, buf[:]); st != OK || string(buf[:n]) != "bye" {
		t.Fatalf("what was sent before is lost: %q, %v", buf[:n], st)
	}
	if _, st := Recv(a, buf[:]); st != Closed {
		t.Fatalf("receive: %v; want Closed", st)
	}
	if _, st := Send(a, []byte("x")); st != Closed { // and no SIGPIPE
		t.Fatalf("send: %v; want Closed", st)
	}
}

// Hangup ends the connection although a copy of the descriptor lives on.
func TestHangupWithACopy(t *testing.T) {
	a, b := pair(t)
	cp, err := unix.Dup(b)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, a, cp)
	Hangup(b)
	var buf [1]byte
	if _, st := Recv(a, buf[:]); st != Closed {
		t.Fatalf("the peer sees %v; want Closed", st)
	}
}

func wait(t *testing.T, p *Poller, limit time.Duration) []Event {
	t.Helper()
	for {
		evs, err := p.Wait(limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(evs) > 0 || limit >= 0 { // a signal may end a wait early
			return append([]Event(nil), evs...)
		}
	}
}

func newPoller(t *testing.T) *Poller {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestPoller(t *testing.T) {
	p := newPoller(t)
	a, b := pair(t)
	closing(t, a, b)
	tok := Token{Slot: 7, Gen: 1<<32 - 1}
	if err := p.Add(a, tok, In|PeerClosed); err != nil {
		t.Fatal(err)
	}
	if evs := wait(t, p, 0); len(evs) != 0 {
		t.Fatalf("%+v, though nothing has happened", evs)
	}
	if _, st := Send(b, []byte("x")); st != OK {
		t.Fatal(st)
	}
	for range 2 { // level triggered: it is reported until it is read
		evs := wait(t, p, -1)
		if len(evs) != 1 || evs[0].Token != tok || !evs[0].Readable() || evs[0].Writable() || evs[0].Gone() {
			t.Fatalf("%+v; want %+v readable", evs, tok)
		}
	}
	if err := p.Mod(a, tok, Out); err != nil {
		t.Fatal(err)
	}
	if evs := wait(t, p, -1); len(evs) != 1 || !evs[0].Writable() || evs[0].Readable() {
		t.Fatalf("%+v; want it writable and nothing else", evs)
	}
	if err := p.Mod(a, tok, PeerClosed); err != nil {
		t.Fatal(err)
	}
	if err := unix.Shutdown(b, unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if evs := wait(t, p, -1); len(evs) != 1 || !evs[0].Gone() || evs[0].Broken() || evs[0].Readable() {
		t.Fatalf("%+v; want the peer's sending side closed, with a byte unread", evs)
	}
	_ = unix.Shutdown(b, unix.SHUT_RDWR)
	if evs := wait(t, p, -1); len(evs) != 1 || !evs[0].Broken() || !evs[0].Readable() {
		t.Fatalf("%+v; want it broken", evs)
	}
	if err := p.Del(a); err != nil {
		t.Fatal(err)
	}
	if evs := wait(t, p, 0); len(evs) != 0 {
		t.Fatalf("%+v after Del", evs)
	}
	if err := p.Mod(a, tok, In); err == nil {
		t.Fatal("a descriptor that is not registered can be changed")
	}
}

// A descriptor number that is used again within a batch of events carries another
// generation than the events that are still to be handled.
func TestTokenOfAReusedDescriptor(t *testing.T) {
	p := newPoller(t)
	a, b := pair(t)
	closing(t, b)
	old := Token{Slot: 3, Gen: 1}
	if err := p.Add(a, old, In); err != nil {
		t.Fatal(err)
	}
	if _, st := Send(b, []byte("x")); st != OK {
		t.Fatal(st)
	}
	evs := wait(t, p, -1)
	if err := p.Del(a); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(a)
	c, d := pair(t)
	closing(t, c, d)
	if c != a {
		t.Fatalf("descriptor %d was not used again, but %d", a, c)
	}
	now := Token{Slot: 3, Gen: 2}
	if err := p.Add(c, now, In); err != nil {
		t.Fatal(err)
	}
	if _, st := Send(d, []byte("y")); st != OK {
		t.Fatal(st)
	}
	if evs[0].Token == now {
		t.Fatal("the earlier event cannot be told from one of the new use")
	}
	if evs := wait(t, p, -1); len(evs) != 1 || evs[0].Token != now {
		t.Fatalf("%+v; want %+v", evs, now)
	}
}

// More descriptors than one wait reports are all reported in the end.
func TestMoreThanABatch(t *testing.T) {
	p := newPoller(t)
	seen := map[uint32]int{}
	for i := range uint32(batch + 20) {
		a, b := pair(t)
		closing(t, a, b)
		if err := p.Add(a, Token{Slot: i}, In); err != nil {
			t.Fatal(err)
		}
		if _, st := Send(b, []byte("x")); st != OK {
			t.Fatal(st)
		}
		seen[i] = a
	}
	var buf [1]byte
	for len(seen) > 0 {
		evs := wait(t, p, 0)
		if len(evs) == 0 {
			t.Fatalf("%d descriptors were never reported", len(seen))
		}
		for _, e := range evs {
			if _, st := Recv(seen[e.Token.Slot], buf[:]); st != OK {
				t.Fatal(st)
			}
			delete(seen, e.Token.Slot)
		}
	}
}

func TestMillisRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int32{
		-1: -1, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Second: 1000, 1<<63 - 1: 1<<31 - 1,
	} {
		if got := int32(millis(d)); got != want {
			t.Errorf("millis(%d) = %d; want %d", d, got, want)
		}
	}
}

// A connection that has been watched by nobody may have ended meanwhile.
func TestSilent(t *testing.T) {
	a, b := pair(t)
	if !Silent(a) {
		t.Error("nothing has been said, and nobody has gone")
	}
	if _, st := Send(b, []byte("x")); st != OK {
		t.Fatal(st)
	}
	if Silent(a) {
		t.Error("something is unread")
	}
	var buf [4]byte
	if _, st := Recv(a, buf[:]); st != OK || !Silent(a) {
		t.Errorf("all is read: %v", st)
	}
	_ = unix.Close(b)
	if Silent(a) {
		t.Error("the other end is closed")
	}
	_ = unix.Close(a)
}
