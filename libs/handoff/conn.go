package handoff

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	headerSize = 5
	// MaxFDs is how many descriptors one message may carry: the client's and those
	// of leased server connections.
	MaxFDs = 8
	// maxBody bounds a message: a record, and unread bytes up to the largest
	// statement text that is held before routing.
	maxBody = 4 + MaxRecord + 16<<20
)

// Conn carries messages and descriptors over a stream socket. Send may be called
// from several goroutines, Receive from one.
type Conn struct {
	conn *net.UnixConn

	mu  sync.Mutex // guards writes: a message's bytes stay together
	err error      // the first failed write; what follows it would be garbage
}

// NewConn takes ownership of a connected Unix stream socket.
func NewConn(c *net.UnixConn) *Conn { return &Conn{conn: c} }

// Close ends the connection. A blocked Receive returns an error.
func (c *Conn) Close() error { return c.conn.Close() }

// Abandon gives the connection up: the peer's sends fail from now on, what it has sent
// is still received, and then the connection ends. So it is never in doubt what the peer
// has acknowledged.
func (c *Conn) Abandon() {
	_ = c.conn.CloseRead() // both fail only when it is closed already
	_ = c.conn.CloseWrite()
}

// ErrCrowded reports that nothing has been sent, since more descriptors of this user are on
// their way, in whichever processes, than each of them may have open (unix(7):
// ETOOMANYREFS). The connection is as good as before; receivers make room.
var ErrCrowded = errors.New("too many descriptors are on their way: try again when some have arrived, or raise the limit of open files")

// sendTimeout bounds a send: a peer that does not read for this long is stuck.
const sendTimeout = 5 * time.Second

// Send writes a message whose body is v as JSON. The descriptors are duplicated
// by the kernel; the caller still owns its own.
func (c *Conn) Send(t Type, v any, fds ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %q message: %w", t, err)
	}
	return c.send(t, body, fds)
}

// SendSession writes a session's record with its client's descriptor first.
func (c *Conn) SendSession(r *Record, fds ...int) error {
	body, err := r.Encode()
	if err != nil {
		return err
	}
	return c.send(TypeSession, body, fds)
}

// SendEncoded does the same with what Encode has made of the record.
func (c *Conn) SendEncoded(payload []byte, fds ...int) error {
	return c.send(TypeSession, payload, fds)
}

// TrySend writes a message, which must be short, and never waits: it reports false, and
// nothing has been sent, if somebody else is sending, there is no room or the connection has
// ended.
func (c *Conn) TrySend(t Type, v any) bool {
	body, err := json.Marshal(v)
	if err != nil || !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	if c.err != nil || c.conn.SetWriteDeadline(time.Now().Add(sendTimeout)) != nil { // the last one may have passed
		return false
	}
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return false
	}
	b := encode(t, body)
	n := 0
	if raw.Write(func(fd uintptr) bool {
		n, err = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return true
	}) != nil || err != nil {
		return false
	}
	if n < len(b) {
		c.err = fmt.Errorf("send %q message: %w", t, io.ErrShortWrite)
	}
	return n == len(b)
}

// encode gives a message as it is on the connection.
func encode(t Type, body []byte) []byte {
	b := make([]byte, headerSize, headerSize+len(body))
	binary.BigEndian.PutUint32(b, uint32(1+len(body)))
	b[4] = byte(t)
	return append(b, body...)
}

func (c *Conn) send(t Type, body []byte, fds []int) error {
	if len(fds) > MaxFDs {
		return fmt.Errorf("send %q message: %d descriptors are more than %d", t, len(fds), MaxFDs)
	}
	if len(body) > maxBody {
		return fmt.Errorf("send %q message: %d bytes are more than %d", t, len(body), maxBody)
	}
	b := encode(t, body)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	switch err := c.writeLocked(b, fds); {
	case errors.Is(err, ErrCrowded):
		return fmt.Errorf("send %q message: %w", t, err)
	case err != nil:
		c.err = fmt.Errorf("send %q message: %w", t, err)
		return c.err
	}
	return nil
}

func (c *Conn) writeLocked(b []byte, fds []int) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if len(fds) > 0 {
		n, _, err := c.conn.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
		if errors.Is(err, unix.ETOOMANYREFS) {
			return ErrCrowded
		}
		if err != nil {
			return err
		}
		b = b[n:] // the descriptors left with the first byte
		if len(b) == 0 {
			return nil // an empty write would report a peer that has closed meanwhile
		}
	}
	_, err := c.conn.Write(b)
	return err
}

// Receive reads the next message. It returns io.EOF when the peer has closed the
// connection between messages. The caller owns the message's descriptors; those
// of a message that cannot be read are closed, and so are all of one some of whose
// descriptors this process had no room for.
func (c *Conn) Receive() (*Message, error) {
	var header [headerSize]byte
	fds, lost, err := c.readHeader(header[:])
	if err != nil {
		CloseFDs(fds)
		return nil, err
	}
	n := binary.BigEndian.Uint32(header[:])
	if n < 1 || n > 1+maxBody {
		CloseFDs(fds)
		return nil, fmt.Errorf("receive message: length %d is not between 1 and %d", n, 1+maxBody)
	}
	body := make([]byte, n-1)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		CloseFDs(fds)
		return nil, fmt.Errorf("receive %q message: %w", header[4], err)
	}
	if lost {
		CloseFDs(fds)
		fds = nil
	}
	return &Message{Type: Type(header[4]), Body: body, FDs: fds, Lost: lost}, nil
}

func (c *Conn) readHeader(header []byte) (fds []int, lost bool, err error) {
	oob := make([]byte, unix.CmsgSpace(MaxFDs*4))
	for got := 0; got < headerSize; {
		n, oobn, flags, _, err := c.conn.ReadMsgUnix(header[got:], oob) // sets MSG_CMSG_CLOEXEC
		if oobn > 0 {
			more, perr := parseRights(oob[:oobn])
			fds = append(fds, more...)
			if perr != nil {
				return fds, false, perr
			}
		}
		// The kernel cuts them off where the room for them ends, here or in the process.
		cut := flags&unix.MSG_CTRUNC != 0
		switch {
		case err != nil:
			return fds, false, fmt.Errorf("receive message: %w", err)
		case len(fds) > MaxFDs, cut && len(fds) == MaxFDs:
			return fds, false, fmt.Errorf("receive message: it carries more than %d descriptors", MaxFDs)
		case n == 0 && got == 0:
			return fds, false, io.EOF
		case n == 0:
			return fds, false, fmt.Errorf("receive message: %w", io.ErrUnexpectedEOF)
		}
		lost = lost || cut
		got += n
	}
	return fds, lost, nil
}

func parseRights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive descriptors: %w", err)
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue // another kind of control message
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// CloseFDs closes descriptors that nobody takes. The other process's copies stay
// open: nothing is shut down.
func CloseFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
