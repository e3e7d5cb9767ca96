package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/certtest"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/services/listener/internal/routertest"
)

// secured starts a listener with a certificate for localhost and 127.0.0.1.
func secured(t *testing.T, change func(*config.Config)) (*listener, *certtest.Authority) {
	t.Helper()
	ca := certtest.NewAuthority(t)
	p := ca.Issue("listener", "localhost", "127.0.0.1")
	return start(t, func(c *config.Config) {
		c.TLS.CertFile, c.TLS.KeyFile = p.CertFile, p.KeyFile
		if change != nil {
			change(c)
		}
	}), ca
}

// over logs in with further parameters of libpq.
func (l *listener) over(format string, args ...any) (*pgconn.PgConn, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgconn.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%s user=alice password=pencil dbname=app ", l.port)+fmt.Sprintf(format, args...))
	if err == nil {
		l.t.Cleanup(func() { l.close(c) })
	}
	return c, err
}

func (l *listener) mustOver(format string, args ...any) *pgconn.PgConn {
	l.t.Helper()
	c, err := l.over(format, args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func TestLoginOverTLS(t *testing.T) {
	l, ca := secured(t, nil)
	r := l.router(newRouter("1"))
	for _, how := range []string{
		"sslmode=require", "sslmode=prefer", "sslmode=verify-full sslrootcert=" + ca.File,
		"sslmode=require channel_binding=require", "sslmode=require channel_binding=disable",
		"sslmode=verify-full sslnegotiation=direct channel_binding=require sslrootcert=" + ca.File,
	} {
		c := l.mustOver("%s", how)
		if got := l.served(c); got != "1" {
			t.Errorf("%s: served by %q", how, got)
		}
		if rec := <-r.Offered; !rec.TLS || rec.User != "alice" || rec.Cancel.PID != c.PID() || !strings.HasPrefix(rec.Client, "127.0.0.1:") {
			t.Errorf("%s: record %+v", how, rec)
		}
		if err := c.CancelRequest(t.Context()); err != nil {
			t.Errorf("%s: cancel: %v", how, err)
		}
		if k := <-r.Cancels; k.PID != c.PID() {
			t.Errorf("%s: cancel of %+v", how, k)
		}
		l.close(c)
	}
	l.mustOver("sslmode=disable")
	if rec := <-r.Offered; rec.TLS {
		t.Error("a plain client is called one over TLS")
	}
	l.wait("sessions over TLS are over", func() bool { return l.gauge("pgpilot_listener_tls_sessions") == 0 })
	l.wait("nobody is on the way in", func() bool { return l.gauge("pgpilot_listener_logins") == 0 })
	if _, err := l.over("sslmode=require password=wrong"); err != nil {
		refused(t, err, "28P01")
	} else {
		t.Error("any password will do over TLS")
	}
}

func TestTLSModes(t *testing.T) {
	folder := t.TempDir()
	t.Run("require", func(t *testing.T) {
		l, _ := secured(t, func(c *config.Config) { c.TLS.Mode, c.ListenUnix = config.TLSRequire, folder })
		l.router(newRouter("1"))
		_, err := l.over("sslmode=disable")
		if got := refused(t, err, "28000"); got.Message != `connection from host "127.0.0.1" for user "alice", database "app" is not encrypted` {
			t.Errorf("message %q", got.Message)
		}
		l.mustOver("sslmode=require")
		l.mustOver("host=%s sslmode=disable", folder)
		l.mustOver("host=%s sslmode=prefer", folder) // declined there, as by PostgreSQL
	})
	t.Run("disable", func(t *testing.T) {
		l, _ := secured(t, func(c *config.Config) { c.TLS.Mode = config.TLSDisable })
		l.router(newRouter("1"))
		if _, err := l.over("sslmode=require"); err == nil || !strings.Contains(err.Error(), "server refused TLS connection") {
			t.Errorf("got %v", err)
		}
		if _, err := l.over("sslmode=require sslnegotiation=direct"); err == nil {
			t.Error("direct TLS is served")
		}
		l.mustOver("sslmode=prefer")
	})
	t.Run("TLS 1.3", func(t *testing.T) {
		l, _ := secured(t, func(c *config.Config) { c.TLS.MinProtocolVersion = config.TLSv13 })
		l.router(newRouter("1"))
		l.mustOver("sslmode=require")
		if _, err := l.shake(&tls.Config{MaxVersion: tls.VersionTLS12}, packet(sslReq, "")); err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a certificate without a hash", func(t *testing.T) {
		p := certtest.NewAuthority(t).SelfSignedEd25519("127.0.0.1")
		l := start(t, func(c *config.Config) { c.TLS.CertFile, c.TLS.KeyFile = p.CertFile, p.KeyFile })
		l.router(newRouter("1"))
		l.mustOver("sslmode=require channel_binding=disable")
		c, err := l.shake(nil, packet(sslReq, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := say(t, c, packet(v3, "user\x00alice\x00\x00")+first("y,,n=,r=abc")); strings.Contains(got, "PLUS") || !strings.Contains(got, "r=abc") {
			t.Errorf("got %q", got)
		}
	})
}

// shake connects, sends what comes before TLS, takes an answer of one byte to each
// packet of it, and makes TLS without looking at the certificate.
func (l *listener) shake(cfg *tls.Config, before ...string) (*tls.Conn, error) {
	l.t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+l.port)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return shake(l.t, c, cfg, before...)
}

func shake(t *testing.T, c net.Conn, cfg *tls.Config, before ...string) (*tls.Conn, error) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for _, p := range before {
		if _, err := io.WriteString(c, p); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if cfg == nil {
		cfg = &tls.Config{}
	}
	cfg.InsecureSkipVerify = true
	s := tls.Client(c, cfg)
	if err := s.Handshake(); err != nil {
		return nil, err
	}
	return s, nil
}

// say sends bytes, ends its half, and gives all that comes back.
func say(t *testing.T, c *tls.Conn, send string) string {
	t.Helper()
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // PostgreSQL leaves without close_notify
		t.Fatalf("%v after %q", err, b)
	}
	return string(b)
}

// What is said inside TLS is answered as by PostgreSQL.
func TestTLSTrapsAreAnsweredAsByPostgreSQL(t *testing.T) {
	primary := labtest.Start(t, 0).Primary()
	l, ca := secured(t, func(c *config.Config) {
		c.Users = []config.User{{Name: lab.User, Password: lab.Password}}
		c.Limits.LoginTimeout = config.Duration(patience)
	})
	p := ca.Issue("server", "127.0.0.1")
	if err := primary.Encrypt(t.Context(), lab.Certificate{Cert: file(t, p.CertFile), Key: file(t, p.KeyFile)}); err != nil {
		t.Fatal(err)
	}
	user := "user\x00" + lab.User + "\x00"
	session := packet(v3, user+"\x00")
	plus := func(data string) string { return initial("SCRAM-SHA-256-PLUS", len(data), data) }
	proof := strings.Repeat("A", 43) + "="
	for _, c := range []struct{ name, send string }{
		{"nothing", ""},
		{"half a packet", session[:10]},
		{"SSLRequest again", packet(sslReq, "")},
		{"GSSENCRequest", packet(sslReq+1, "")},
		{"cancel", packet(cancelReq, "\x00\x00\x00\x01\x00\x00\x00\x02")},
		{"unknown protocol options", packet(v3, user+"_pq_.foo\x00bar\x00\x00")},
		{"what is offered", session},
		{"without binding", session + first("n,,n=,r=abc")},
		{"downgraded", session + first("y,,n=,r=abc")},
		{"binding, but not chosen", session + first("p=tls-server-end-point,,n=,r=abc")},
		{"with binding", session + plus("p=tls-server-end-point,,n=,r=abc")},
		{"chosen, but not bound", session + plus("n,,n=,r=abc")},
		{"chosen, but downgraded", session + plus("y,,n=,r=abc")},
		{"another binding", session + plus("p=tls-unique,,n=,r=abc")},
		{"no binding type", session + plus("p,,n=,r=abc")},
		{"somebody else's certificate", session + plus("p=tls-server-end-point,,n=,r=abc") + response("c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsQUFBQQ==,r=abc,p="+proof)},
		{"no certificate in the end", session + plus("p=tls-server-end-point,,n=,r=abc") + response("c=biws,r=abc,p="+proof)},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := func(port string) string {
				conn, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				s, err := shake(t, conn, nil, packet(sslReq, ""))
				if err != nil {
					t.Fatal(err)
				}
				return plain(say(t, s, c.send))
			}
			if want, got := ask(strconv.Itoa(primary.Port)), ask(l.port); got != want {
				t.Errorf("\n     got %q\ndirectly %q", got, want)
			}
		})
	}
}

func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Bytes sent in the clear behind SSLRequest are never taken for the encrypted client's:
// an attacker may have put them there (CVE-2021-23222). The first bytes of TLS itself
// may come early.
func TestInjectedBytesAreNotTheClients(t *testing.T) {
	l, _ := secured(t, nil)
	session := packet(v3, "user\x00alice\x00\x00")
	for name, behind := range map[string]string{"a session": session, "a cancel request": packet(cancelReq, "\x00\x00\x00\x01abcd"), "an HTTP request": "GET / HTTP/1.1\r\n\r\n", "SSLRequest again": packet(sslReq, "")} {
		got := ask(t, l.port, packet(sslReq, "")+behind)
		// A yes, and at most an alert of TLS: level fatal.
		if len(got) == 0 || got[0] != 'S' || len(got) > 1 && (len(got) != 8 || got[1] != 0x15 || got[6] != 2) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	c, err := net.Dial("tcp", "127.0.0.1:"+l.port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := shake(t, &eager{Conn: c, before: packet(sslReq, "")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, s, session); !strings.HasPrefix(got, "R") {
		t.Errorf("got %q", got)
	}
}

// eager sends something in one write with the first of its bytes, and leaves out the
// answer to it.
type eager struct {
	net.Conn
	before string
	heard  bool
}

func (e *eager) Write(b []byte) (int, error) {
	n := len(e.before)
	m, err := e.Conn.Write(append([]byte(e.before), b...))
	e.before = ""
	return m - n, err
}

func (e *eager) Read(b []byte) (int, error) {
	if !e.heard {
		e.heard = true
		if _, err := io.ReadFull(e.Conn, make([]byte, 1)); err != nil {
			return 0, err
		}
	}
	return e.Conn.Read(b)
}

// Without ALPN a direct connection may be another protocol's, redirected.
func TestDirectTLSNeedsItsProtocol(t *testing.T) {
	l, _ := secured(t, nil)
	c, err := l.shake(nil)
	if err == nil {
		var b []byte
		b, err = io.ReadAll(c)
		if len(b) > 0 || err != nil {
			t.Errorf("without ALPN: got %q, %v; want the end", b, err)
		}
	}
	if _, err := l.shake(&tls.Config{NextProtos: []string{"h2"}}); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("with another protocol: %v", err)
	}
	if c, err = l.shake(&tls.Config{NextProtos: []string{"postgresql"}}); err != nil {
		t.Fatal(err)
	}
	// A client that asks for TLS inside TLS is told no, and goes on.
	if got := say(t, c, packet(sslReq, "")+packet(sslReq+1, "")+packet(v3, "user\x00alice\x00\x00")); !strings.HasPrefix(got, "NNR") {
		t.Errorf("got %q", got)
	}
}

func TestClientCertificates(t *testing.T) {
	stranger := certtest.NewAuthority(t).Issue("alice")
	for _, c := range []struct {
		clientcert            string
		none, alices, another string // SQLSTATE of the refusal
	}{
		{config.NoClientCert, "", "", ""},
		{config.ClientCertVerifyCA, "28000", "", ""},
		{config.ClientCertVerifyFull, "28000", "", "28P01"},
	} {
		t.Run(c.clientcert, func(t *testing.T) {
			ca := certtest.NewAuthority(t)
			l, _ := secured(t, func(cfg *config.Config) {
				cfg.TLS.Mode, cfg.TLS.ClientCert, cfg.TLS.CAFile = config.TLSRequire, c.clientcert, ca.File
			})
			l.router(newRouter("1"))
			for name, try := range map[string]struct {
				p    certtest.Pair
				code string
			}{"alice's": {ca.Issue("alice"), c.alices}, "another's": {ca.Issue("bob"), c.another}, "none": {certtest.Pair{}, c.none}} {
				how := "sslmode=require"
				if try.p.CertFile != "" {
					how += " sslcert=" + try.p.CertFile + " sslkey=" + try.p.KeyFile
				}
				_, err := l.over("%s", how)
				switch {
				case try.code != "":
					refused(t, err, try.code)
				case err != nil:
					t.Errorf("%s: %v", name, err)
				}
			}
			_, err := l.over("sslmode=require sslcert=%s sslkey=%s", stranger.CertFile, stranger.KeyFile)
			if err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
				t.Errorf("a strange authority's: %v", err)
			}
		})
	}
}

// A renewed certificate is shown from the reload on; one that cannot be used is not,
// and nobody who is connected notices.
func TestReloadedCertificate(t *testing.T) {
	l, _ := secured(t, nil)
	l.router(newRouter("1"))
	old := l.mustOver("sslmode=require")
	next := certtest.NewAuthority(t)
	renewed := next.Issue("renewed", "127.0.0.1")
	cfg := *l.env.Config
	cfg.TLS.CertFile, cfg.TLS.KeyFile = renewed.CertFile, renewed.KeyFile
	cfg.Limits.MaxClients = 7
	l.reloads <- &cfg
	l.wait("the configuration is the new one", func() bool { return l.gauge("pgpilot_listener_max_clients") == 7 })
	l.mustOver("sslmode=verify-full sslrootcert=%s channel_binding=require", next.File)

	if err := os.WriteFile(renewed.CertFile, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := cfg
	broken.Limits.MaxClients = 8
	l.reloads <- &broken
	again := cfg
	again.TLS.CertFile, again.TLS.KeyFile = l.env.Config.TLS.CertFile, l.env.Config.TLS.KeyFile
	again.Limits.MaxClients = 9
	l.mustOver("sslmode=verify-full sslrootcert=%s", next.File)
	l.reloads <- &again // taken only after the broken one has been refused
	l.wait("the configuration is the third", func() bool { return l.gauge("pgpilot_listener_max_clients") == 9 })
	if got := l.served(old); got != "1" {
		t.Errorf("served by %q", got)
	}
}

func TestUnusableCertificateStopsTheStart(t *testing.T) {
	l, _ := secured(t, nil)
	if err := os.Chmod(l.env.Config.TLS.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	env := *l.env
	if err := serve(context.Background(), &env); err == nil || !strings.Contains(err.Error(), "has group or world access (mode 0644): chmod it to 0600") {
		t.Errorf("got %v", err)
	}
}

// A router that dies takes its sessions along; their clients see an end, not a
// truncated TLS connection.
func TestDeadRouterIsACleanEndOverTLS(t *testing.T) {
	l, _ := secured(t, nil)
	r := l.router(newRouter("1"))
	c := l.mustOver("sslmode=require")
	r.Kill()
	h, err := c.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Conn.Close()
	if err := h.Conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(h.Conn); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v; want the end", b, err)
	}
	h.Conn.Close()
	l.wait("the session is forgotten", func() bool {
		return l.gauge("pgpilot_listener_tls_sessions")+l.gauge("pgpilot_listener_clients") == 0
	})
}

func TestNoRouterIsSaidOverTLS(t *testing.T) {
	l, _ := secured(t, nil)
	_, err := l.over("sslmode=require")
	refused(t, err, "57P03")
	l.wait("its place is free", func() bool { return l.gauge("pgpilot_listener_clients")+l.gauge("pgpilot_listener_logins") == 0 })
}

// Sessions over TLS end with their listener: each when its router finds it idle, and
// those that do not end are cut off.
func TestSessionsOverTLSEndWithTheListener(t *testing.T) {
	for name, b := range map[string]routertest.Behaviour{"ends": routertest.Take, "goes on": routertest.Cling} {
		t.Run(name, func(t *testing.T) {
			l, _ := secured(t, nil)
			l.router(&routertest.Router{ID: "1", Behaviour: b})
			c := l.mustOver("sslmode=require")
			if err := l.stop(); err != nil {
				t.Fatal(err)
			}
			_, err := c.Exec(t.Context(), "SELECT router").ReadAll()
			var pg *pgconn.PgError
			if b == routertest.Take && (!errors.As(err, &pg) || pg.Code != "57P01") || err == nil {
				t.Errorf("got %v", err)
			}
		})
	}
}
