package stack

import (
	"context"
	"net"
	"strings"
	"testing"
)

// An outgoing connection may get a port that somebody wants to listen on.
func TestAPortOfAConnectionComesFree(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	address := conn.LocalAddr().String()

	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if err := CheckAddress(impatient, address); err == nil || !strings.Contains(err.Error(), "is taken by a connection of another program, which ends by itself") {
		t.Errorf("while it is open: %v", err)
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // a reset leaves no TIME-WAIT behind
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- conn.Close() }()
	if err := CheckAddress(t.Context(), address); err != nil {
		t.Errorf("while it closes: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
