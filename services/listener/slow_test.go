package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// Whoever is slow or talks nonsense during the handshake holds a place no longer than
// limits.login_timeout, and nobody's else.
func TestSlowAndBrokenHandshakes(t *testing.T) {
	l, _ := secured(t, func(c *config.Config) { c.Limits.LoginTimeout = config.Duration(300 * time.Millisecond) })
	hello := clientHello(t)
	for name, send := range map[string]string{
		"nothing":             packet(sslReq, ""),
		"half a hello":        packet(sslReq, "") + hello[:len(hello)/2],
		"a hello, no more":    packet(sslReq, "") + hello,
		"half a direct hello": hello[:len(hello)/2],
		"a first byte":        "\x16",
	} {
		c, err := net.Dial("tcp", "127.0.0.1:"+l.port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Logf("%s: %v", name, err) // a reset is an end too
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, garbage := range []string{"\x16\x03\x01\x00\x05hello", "\x16\x16\x16\x16\x16\x16\x16\x16", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 70000)} {
		c, err := net.Dial("tcp", "127.0.0.1:"+l.port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, garbage) // may be cut off in the middle
		if b, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || bytes.ContainsAny(b, "RE") {
			t.Errorf("%q…: %q, %v", garbage[:5], b, err)
		}
	}
	l.wait("nobody is on the way in", func() bool { return l.gauge("pgpilot_listener_logins") == 0 })
}

// clientHello gives the first message of a direct TLS connection.
func clientHello(t *testing.T) string {
	t.Helper()
	a, b := net.Pipe()
	go func() {
		_ = tls.Client(a, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}}).Handshake()
	}()
	defer b.Close()
	buf := make([]byte, 4096)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// Clients that say nothing do not keep others out: they lose their places.
func TestSilentClientsMakeRoom(t *testing.T) {
	l, _ := secured(t, nil)
	l.router(newRouter("1"))
	session := packet(v3, "user\x00alice\x00\x00")
	var trickling []net.Conn
	for i := range 1100 { // more than there are places
		c, err := net.Dial("tcp", "127.0.0.1:"+l.port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		send := []string{"", session[:9], packet(sslReq, ""), session, clientHello(t)[:20], packet(v3, strings.Repeat("x", 9000))[:9]}[i%6]
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		if i%6 == 5 {
			trickling = append(trickling, c)
		}
	}
	// Some say a byte now and then, and are no quicker for it.
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for _, c := range trickling {
				_, _ = c.Write([]byte("x")) // it may have been sent away
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 3 {
		l.mustOver("sslmode=require")
		l.mustOver("sslmode=disable")
	}
}

// Who has not proved who they are takes up no place of limits.max_clients.
func TestUnprovenClientsDoNotFillTheHouse(t *testing.T) {
	l := start(t, func(c *config.Config) { c.Limits.MaxClients = 1 })
	l.router(newRouter("1"))
	for range 5 {
		c, err := net.Dial("tcp", "127.0.0.1:"+l.port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, packet(v3, "user\x00alice\x00\x00")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 9)); err != nil { // it is asked for its password
			t.Fatal(err)
		}
	}
	l.connect()
	_, err := l.dial("alice", "pencil")
	refused(t, err, "53300")
}
