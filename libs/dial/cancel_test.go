package dial

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
)

// TestCancelRequest reads what is sent: keys of protocol 3.2 are longer than four
// bytes.
func TestCancelRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- nil
			return
		}
		defer c.Close()
		size := make([]byte, 4)
		if _, err := io.ReadFull(c, size); err != nil {
			got <- nil
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(size)-4)
		if _, err := io.ReadFull(c, b); err != nil {
			got <- nil
			return
		}
		got <- b
	}()
	secret := slices.Repeat([]byte{7}, 256)
	if err := (Server{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port)}).Cancel(t.Context(), 4711, secret); err != nil {
		t.Fatal(err)
	}
	b := <-got
	if len(b) != 8+256 || binary.BigEndian.Uint32(b) != 80877102 || binary.BigEndian.Uint32(b[4:]) != 4711 || !slices.Equal(b[8:], secret) {
		t.Errorf("sent %x", b)
	}
}

// A server that takes the request and does not answer holds nobody who has given up.
func TestCancelRequestIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	s := Server{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port), TLS: config.ServerTLS{Mode: config.SSLDisable}}
	ended := make(chan error, 1)
	go func() { ended <- s.Cancel(ctx, 1, []byte("abcd")) }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
