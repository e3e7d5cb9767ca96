package poll

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkMessage is what the system takes for one message that comes and one that
// leaves, on a local stream socket: looking for ready descriptors, a read, a write. It
// counts the peer's write and read too.
func BenchmarkMessage(b *testing.B) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		b.Fatal(err)
	}
	p, err := New()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = p.Close()
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
	})
	if err := p.Add(fds[0], Token{Slot: 1}, In); err != nil {
		b.Fatal(err)
	}
	message, buf := make([]byte, 64), make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		if n, st := Send(fds[1], message); st != OK || n != len(message) {
			b.Fatal(n, st)
		}
		events, err := p.Wait(-1)
		if err != nil || len(events) != 1 {
			b.Fatal(len(events), err)
		}
		n, st := Recv(fds[0], buf)
		if st != OK {
			b.Fatal(st)
		}
		if _, st := Send(fds[0], buf[:n]); st != OK {
			b.Fatal(st)
		}
		if _, st := Recv(fds[1], buf); st != OK {
			b.Fatal(st)
		}
	}
}

// BenchmarkTimers sets and stops a timer, as a read does that waits for a fence.
func BenchmarkTimers(b *testing.B) {
	var ts Timers
	due := time.Unix(1, 0)
	var t Timer
	b.ReportAllocs()
	for b.Loop() {
		ts.Set(&t, due, func() {})
		ts.Stop(&t)
	}
}
