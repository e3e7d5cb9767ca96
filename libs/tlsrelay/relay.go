package tlsrelay

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Relay is one TLS connection and the near end of its socket pair.
type Relay struct {
	secure  *tls.Conn
	in      io.Reader // what the peer sends
	carrier *Carrier
	near    *net.UnixConn
	raw     syscall.RawConn // near's
}

// New makes a socket pair for a TLS connection whose handshake is done. far is the
// end for the loop: a stream socket, close-on-exec and non-blocking, that the caller
// owns. Nothing is carried before Run. After an error the connection is still the
// caller's.
func New(secure *tls.Conn, below *Carrier) (r *Relay, far int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("make a socket pair: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "relay")
	defer f.Close() // FileConn duplicates
	c, err := net.FileConn(f)
	if err != nil {
		_ = unix.Close(fds[1])
		return nil, -1, fmt.Errorf("make a socket pair: %w", err)
	}
	r = &Relay{secure: secure, in: secure, carrier: below, near: c.(*net.UnixConn)}
	if r.raw, err = r.near.SyscallConn(); err == nil {
		err = below.SetDeadline(time.Time{})
	}
	if err != nil {
		r.near.Close()
		_ = unix.Close(fds[1])
		return nil, -1, fmt.Errorf("lift the deadlines: %w", err)
	}
	below.near = r.near
	return r, fds[1], nil
}

// ReadThrough says that the peer's bytes are to be read here, before Run: from whoever has
// read the TLS connection so far and may hold some of them, or be about to take some. It
// must return the connection's end and its errors.
func (r *Relay) ReadThrough(in io.Reader) { r.in = in }

// lingerTimeout is how long the peer may take to close its side once it has been
// told that the connection is over. Closing the socket with unread bytes in it would
// reset it, and the peer might lose the last words.
const lingerTimeout = time.Second

// Run carries until both sides are done or one has failed, and closes everything.
// The error says why the TLS connection failed; nil is an orderly end, at whichever
// side.
func (r *Relay) Run() error {
	incoming := make(chan error, 1)
	go func() { incoming <- r.inward() }()
	outErr := r.outward()
	if outErr == nil {
		// Nobody holds the far end: say so, and hear the peer out.
		if outErr = r.farewell(); outErr == nil {
			outErr = r.carrier.SetReadDeadline(time.Now().Add(lingerTimeout))
		}
	}
	if outErr != nil {
		r.Cut()
	}
	inErr := <-incoming
	r.Cut()
	switch {
	case inErr != nil && !errors.Is(inErr, os.ErrDeadlineExceeded) && !errors.Is(inErr, net.ErrClosed):
		return fmt.Errorf("receive over TLS: %w", inErr)
	case outErr != nil && !errors.Is(outErr, net.ErrClosed):
		return fmt.Errorf("send over TLS: %w", outErr)
	}
	return nil
}

// farewell ends the sending direction: close_notify, and FIN behind it.
func (r *Relay) farewell() error {
	if err := r.secure.CloseWrite(); err != nil {
		return err
	}
	if c, ok := r.carrier.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// Cut ends the relay at once, from any goroutine.
func (r *Relay) Cut() {
	r.carrier.Close()
	r.near.Close()
}

const (
	// chunk is what is carried at a time: a full TLS record.
	chunk = 16 << 10
	// smallChunk is what a silent connection keeps ready for its peer's next record.
	smallChunk = 2 << 10
)

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// inward carries from the peer to the far end until the peer's end of file. Bytes
// for which there is no taker any more are dropped.
func (r *Relay) inward() error {
	small := make([]byte, smallChunk)
	b := small
	var large *[chunk]byte
	defer func() {
		if large != nil {
			chunks.Put(large)
		}
	}()
	wanted := true
	for {
		n, err := r.in.Read(b)
		if n > 0 && wanted {
			_, werr := r.near.Write(b[:n])
			wanted = werr == nil
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			_ = r.near.CloseWrite() // its owner may be gone
			return nil
		case err != nil:
			r.Cut()
			return err
		case n == len(small) && large == nil:
			large = chunks.Get().(*[chunk]byte)
			b = large[:]
		case n < len(small) && large != nil:
			chunks.Put(large)
			large, b = nil, small
		}
	}
}

// outward carries from the far end to the peer until nobody holds the far end. The
// error is the TLS connection's.
func (r *Relay) outward() error {
	var in intake
	take := in.take
	for {
		// An owner that died may leave an error rather than an end of file.
		if r.raw.Read(take) != nil || in.n <= 0 {
			in.release()
			return nil //nolint:nilerr // the end of the far end is none of the TLS connection's
		}
		_, err := r.secure.Write(in.b[:in.n])
		in.release()
		if err != nil {
			return err
		}
	}
}

// intake receives what the far end sends, into a buffer that it holds only while
// there is something in it.
type intake struct {
	b *[chunk]byte
	n int
}

// take receives once; false: there is nothing yet. The near end does not block.
func (in *intake) take(fd uintptr) bool {
	in.b = chunks.Get().(*[chunk]byte)
	for {
		var err error
		in.n, err = unix.Read(int(fd), in.b[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			in.release()
			return false
		default:
			return true
		}
	}
}

func (in *intake) release() {
	if in.b != nil {
		chunks.Put(in.b)
		in.b = nil
	}
}
