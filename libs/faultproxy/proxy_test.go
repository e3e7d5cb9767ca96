package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

const patience = 30 * time.Second

// start runs an echo server behind a proxy.
func start(t *testing.T) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	p, err := New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		l.Close()
		<-done
	})
	return p
}

func connect(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func say(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("heard %d bytes, %v; want %d", len(got), err, len(want))
	}
}

func TestNothingHappens(t *testing.T) {
	p := start(t)
	c := connect(t, p)
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	go func() { _, _ = c.Write(big) }()
	hear(t, c, big)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after both sides have closed: %d, %v", n, err)
	}
}

func TestCut(t *testing.T) {
	p := start(t)
	c := connect(t, p)
	say(t, c, []byte("a"))
	hear(t, c, []byte("a"))
	p.Cut()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection: %v, want a reset", err)
	}
	if d, err := net.DialTimeout("tcp", p.Addr(), patience); err == nil {
		defer d.Close()
		if err := d.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a new connection: %v, want its end", err)
		}
	}
	p.Heal()
	d := connect(t, p)
	say(t, d, []byte("b"))
	hear(t, d, []byte("b"))
}

func TestBlackhole(t *testing.T) {
	p := start(t)
	c := connect(t, p)
	say(t, c, []byte("a"))
	hear(t, c, []byte("a"))
	p.Blackhole()
	d := connect(t, p) // taken
	for _, x := range []net.Conn{c, d} {
		say(t, x, []byte("b"))
		if err := x.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := x.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %d bytes, %v", n, err)
		}
		if err := x.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	p.Heal()
	hear(t, c, []byte("b"))
	hear(t, d, []byte("b"))
}

// A delay is no less than it says, and does not add up.
func TestDelay(t *testing.T) {
	p := start(t)
	c := connect(t, p)
	const delay = 50 * time.Millisecond
	p.Delay(delay)
	from := time.Now()
	say(t, c, []byte("a"))
	hear(t, c, []byte("a"))
	if took := time.Since(from); took < delay {
		t.Errorf("took %v", took)
	}
}

// Two connections share what a throttled server may send.
func TestThrottle(t *testing.T) {
	p := start(t)
	c, d := connect(t, p), connect(t, p)
	p.Throttle(1 << 20)
	b := bytes.Repeat([]byte("x"), 64<<10)
	from := time.Now()
	say(t, c, b)
	say(t, d, b)
	hear(t, c, b)
	hear(t, d, b)
	if took := time.Since(from); took < 125*time.Millisecond {
		t.Errorf("128 kB at 1 MB/s took %v", took)
	}
}

func TestResetAfter(t *testing.T) {
	p := start(t)
	c := connect(t, p)
	say(t, c, []byte("before"))
	hear(t, c, []byte("before"))
	p.ResetAfter(5)
	say(t, c, []byte("0123456789"))
	hear(t, c, []byte("01234"))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %d bytes more, %v; want the end", n, err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	p := start(t)
	c := connect(t, p)
	say(t, c, []byte("a"))
	hear(t, c, []byte("a"))
	p.Blackhole()
	say(t, c, []byte("b"))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
