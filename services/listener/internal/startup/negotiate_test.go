package startup

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// connect gives both ends of a TCP connection.
func connect(t *testing.T) (client net.Conn, server *Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); s.Close() })
	return client, NewClient(s.(Conn))
}

// A client may send its first messages before it is asked to; they are the next
// reader's.
func TestNothingBehindThePacketIsRead(t *testing.T) {
	client, server := connect(t)
	b := body(Version30, "user\x00u\x00\x00")
	b = append(binary.BigEndian.AppendUint32(nil, uint32(4+len(b))), b...)
	if _, err := client.Write(append(b, "behind"...)); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	p, err := Negotiate(server, nil)
	if err != nil || p.User != "u" {
		t.Fatalf("got %+v, %v", p, err)
	}
	if rest, err := io.ReadAll(server); err != nil || string(rest) != "behind" {
		t.Errorf("left in the socket: %q, %v", rest, err)
	}
}

// A packet that announces its length and never comes costs no more than that.
func TestHostileLengthsCostNothing(t *testing.T) {
	for _, n := range []uint32{0, 3, 4, 7, 4 + MaxPacket + 1, 1 << 30, 1<<32 - 1} {
		client, server := connect(t)
		if _, err := client.Write(binary.BigEndian.AppendUint32(nil, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := Negotiate(server, nil); err == nil || err.Error() != "invalid length of startup packet (08P01)" {
			t.Errorf("length %d: %v", n, err)
		}
	}
}
