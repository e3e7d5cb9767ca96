package tlsrelay

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/certtest"
)

// patience bounds every wait.
const patience = 2 * time.Minute

// bench is a peer that speaks TLS, a relay, and the far end as its owner has it.
type bench struct {
	t testing.TB
	// peer is the TLS client, tcp the socket below it.
	peer *tls.Conn
	tcp  *net.TCPConn
	far  *net.UnixConn
	// below is the relay's own socket to the peer.
	below *net.TCPConn
	done  chan error
}

func start(t testing.TB, versions ...uint16) *bench { return startReading(t, nil, versions...) }

// startReading reads the peer through what through gives for the TLS connection.
func startReading(t testing.TB, through func(io.Reader) io.Reader, versions ...uint16) *bench {
	t.Helper()
	leakCheck(t)
	ca := certtest.NewAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
	if len(versions) > 0 {
		cfg.MaxVersion = versions[0]
	}
	b := &bench{t: t, peer: tls.Client(c, cfg), tcp: c.(*net.TCPConn), below: s.(*net.TCPConn), done: make(chan error, 1)}
	shaken := make(chan error, 1)
	go func() { shaken <- b.peer.Handshake() }()
	below := Carry(s)
	secure := tls.Server(below, &tls.Config{Certificates: []tls.Certificate{ca.Issue("server", "localhost").TLS}})
	if err := errors.Join(secure.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	r, fd, err := New(secure, below)
	if err != nil {
		t.Fatal(err)
	}
	if through != nil {
		r.ReadThrough(through(secure))
	}
	f := os.NewFile(uintptr(fd), "far")
	far, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	b.far = far.(*net.UnixConn)
	for _, c := range []net.Conn{b.peer, b.far} {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	go func() { b.done <- r.Run() }()
	t.Cleanup(func() { b.peer.Close(); b.far.Close(); c.Close() })
	return b
}

// leakCheck fails the test if goroutines outlive it.
func leakCheck(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(patience)
		for runtime.NumGoroutine() > before && !t.Failed() {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Errorf("goroutines are left:\n%s", stacks[:runtime.Stack(stacks, true)])
			}
			runtime.Gosched()
		}
	})
}

// ended waits for Run.
func (b *bench) ended() error {
	b.t.Helper()
	select {
	case err := <-b.done:
		return err
	case <-time.After(patience):
		b.t.Fatal("the relay goes on")
	}
	return nil
}

func (b *bench) say(w io.Writer, s string) {
	b.t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) hear(r io.Reader, want string) {
	b.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		b.t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

// hearEnd wants an end of file that is not a truncation: crypto/tls reports one that
// came without close_notify as io.ErrUnexpectedEOF.
func (b *bench) hearEnd(r io.Reader) {
	b.t.Helper()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		b.t.Fatalf("heard %d bytes, %v; want the end", n, err)
	}
}

func TestBytesFlowBothWays(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			b := start(t, version)
			for range 3 {
				b.say(b.peer, "question")
				b.hear(b.far, "question")
				b.say(b.far, "answer")
				b.hear(b.peer, "answer")
			}
		})
	}
}

// Megabytes go both ways at once while nobody waits for anybody.
func TestBothWaysAtOnce(t *testing.T) {
	b := start(t)
	const size = 8 << 20
	there, back := make([]byte, size), make([]byte, size)
	_, _ = rand.Read(there)
	_, _ = rand.Read(back)
	errs := make(chan error, 4)
	carry := func(w io.Writer, r io.Reader, data []byte) {
		go func() { _, err := w.Write(data); errs <- err }()
		go func() {
			got := make([]byte, size)
			_, err := io.ReadFull(r, got)
			if err == nil && !bytes.Equal(got, data) {
				err = errors.New("other bytes came out than went in")
			}
			errs <- err
		}()
	}
	carry(b.peer, b.far, there)
	carry(b.far, b.peer, back)
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// A side that does not read stops the other, and neither loses a byte.
func TestBackPressure(t *testing.T) {
	b := start(t)
	for name, way := range map[string]struct {
		w    net.Conn
		r    io.Reader
		data []byte
	}{
		"to the far end": {b.peer, b.far, bytes.Repeat([]byte("x"), 32<<20)},
		"to the peer":    {b.far, b.peer, bytes.Repeat([]byte("y"), 32<<20)},
	} {
		written := make(chan error, 1)
		go func() { _, err := way.w.Write(way.data); written <- err }()
		// Kernel buffers hold about ten megabytes, not this.
		select {
		case err := <-written:
			t.Fatalf("%s: 32 MB found room somewhere: %v", name, err)
		case <-time.After(300 * time.Millisecond):
		}
		got := make([]byte, len(way.data))
		if _, err := io.ReadFull(way.r, got); err != nil || !bytes.Equal(got, way.data) {
			t.Fatalf("%s: %v", name, err)
		}
		if err := <-written; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The peer ends its direction and still gets its answer.
func TestPeersHalfClose(t *testing.T) {
	for name, end := range map[string]func(*bench) error{
		"close_notify": func(b *bench) error { return b.peer.CloseWrite() },
		"bare FIN":     func(b *bench) error { return b.tcp.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			b.say(b.peer, "last request")
			if err := end(b); err != nil {
				t.Fatal(err)
			}
			b.hear(b.far, "last request")
			b.hearEnd(b.far)
			b.say(b.far, "its answer")
			b.far.Close()
			b.hear(b.peer, "its answer")
			b.hearEnd(b.peer)
			if err := b.ended(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An owner that closes its end, or dies with the peer's bytes unread, leaves a clean
// end behind everything it had sent.
func TestOwnersEndIsClean(t *testing.T) {
	for name, hangup := range map[string]func(*bench){
		"close": func(b *bench) {},
		"unread bytes": func(b *bench) {
			b.say(b.peer, "not read any more")
			raw, err := b.far.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			// They have arrived: closing with them in the queue is a reset to the near end.
			if err := raw.Read(func(fd uintptr) bool {
				n, _, _ := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
				return n == 1
			}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			words := string(bytes.Repeat([]byte("last words "), 10000))
			hangup(b)
			b.say(b.far, words)
			b.far.Close()
			b.hear(b.peer, words)
			b.hearEnd(b.peer)
			b.peer.Close()
			if err := b.ended(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The far end travels: the relay lives as long as any copy of it.
func TestFarEndMayChangeHands(t *testing.T) {
	b := start(t)
	f, err := b.far.File()
	if err != nil {
		t.Fatal(err)
	}
	next, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	b.far.Close()
	b.say(b.peer, "still there?")
	b.hear(next, "still there?")
	b.say(next, "yes")
	b.hear(b.peer, "yes")
	next.Close()
	b.hearEnd(b.peer)
}

// What fails at the peer is a hang-up at the far end, not an orderly end of file with a
// way back.
func TestPeersFailureIsAHangUp(t *testing.T) {
	for name, fail := range map[string]func(*bench){
		"reset": func(b *bench) {
			if err := b.tcp.SetLinger(0); err != nil {
				b.t.Fatal(err)
			}
			b.tcp.Close()
		},
		"bytes that are not TLS": func(b *bench) { b.say(b.tcp, "Q\x00\x00\x00\x0dSELECT 1\x00") },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			fail(b)
			if err := b.ended(); err == nil {
				t.Error("the failure is not told")
			}
			if _, err := b.far.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the far end reads %v", err)
			}
			if _, err := b.far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("the far end writes %v", err)
			}
		})
	}
}

// A peer that reads nothing holds up a relay only while the far end has an owner.
func TestDeafPeerIsLeft(t *testing.T) {
	b := start(t)
	// Smaller than what the pair holds, so that bytes are left over.
	if err := errors.Join(b.below.SetWriteBuffer(8<<10), b.tcp.SetReadBuffer(8<<10), b.far.SetWriteDeadline(time.Now().Add(time.Second))); err != nil {
		t.Fatal(err)
	}
	if _, err := b.far.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("64 MB found room somewhere: %v", err)
	}
	b.far.Close()
	if err := b.ended(); err == nil {
		t.Error("lost bytes are not told")
	}
}

// A silent connection is not closed by the deadlines that guard writing, and a
// message after a long silence is carried.
func TestSilenceIsNoFailure(t *testing.T) {
	b := start(t)
	b.say(b.far, "one")
	b.hear(b.peer, "one")
	time.Sleep(lastWordTimeout + time.Second) // the deadline of the first write passes: that is the case
	b.say(b.far, "two")
	b.far.Close()
	b.hear(b.peer, "two")
	b.hearEnd(b.peer)
}

// What an earlier reader of the connection has taken ahead is not lost.
func TestBytesReadAhead(t *testing.T) {
	b := startReading(t, func(secure io.Reader) io.Reader { return io.MultiReader(strings.NewReader("ahead, "), secure) })
	b.say(b.peer, "behind")
	b.hear(b.far, "ahead, behind")
	b.far.Close()
	b.hearEnd(b.peer)
}

// What one message costs from the far end to the peer.
func BenchmarkMessage(b *testing.B) {
	r := start(b)
	msg := []byte("SELECT 1")
	buf := make([]byte, len(msg))
	b.ReportAllocs()
	for b.Loop() {
		r.say(r.far, string(msg))
		if _, err := io.ReadFull(r.peer, buf); err != nil {
			b.Fatal(err)
		}
	}
}
