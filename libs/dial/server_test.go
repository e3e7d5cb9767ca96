package dial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/certtest"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

const patience = time.Minute

// access lets everybody in who is encrypted, or is not, and asks for a certificate or
// not; the superuser always.
func access(kind, extra string) string {
	return "host all postgres 127.0.0.1/32 scram-sha-256\n" + kind + " all " + lab.User + " 127.0.0.1/32 scram-sha-256" + extra + "\n"
}

func pem(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// login connects and says whether the server sees TLS, or gives the error.
func login(t *testing.T, s Server) (encrypted bool, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := s.Connect(ctx, Login{User: lab.User, Password: lab.Password, Database: lab.Database, Newest: true})
	if err != nil {
		return false, err
	}
	defer c.Close(ctx)
	rs, err := c.Exec(ctx, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return string(rs[0].Rows[0][0]) == "t", nil
}

func TestSSLModes(t *testing.T) {
	primary := labtest.Start(t, 0).Primary()
	ca, stranger := certtest.NewAuthority(t), certtest.NewAuthority(t)
	good, elsewhere, mine := ca.Issue("server", "localhost", "127.0.0.1"), ca.Issue("server", "elsewhere.example"), ca.Issue(lab.User)
	server := func(mode, root string) Server {
		return Server{Host: "127.0.0.1", Port: uint16(primary.Port), TLS: config.ServerTLS{Mode: mode, RootCert: root}}
	}
	const noTLS, plain, secure = "does not offer TLS", "plain", "secure"
	check := func(t *testing.T, name string, s Server, want string) {
		t.Helper()
		encrypted, err := login(t, s)
		got := plain
		switch {
		case err != nil:
			got = err.Error()
		case encrypted:
			got = secure
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	t.Run("server without TLS", func(t *testing.T) {
		for mode, want := range map[string]string{"": plain, config.SSLDisable: plain, config.SSLPrefer: plain, config.SSLRequire: noTLS, config.SSLVerifyCA: noTLS, config.SSLVerifyFull: noTLS} {
			check(t, mode, server(mode, ca.File), want)
		}
	})
	if err := primary.Encrypt(t.Context(), lab.Certificate{Cert: pem(t, good.CertFile), Key: pem(t, good.KeyFile)}); err != nil {
		t.Fatal(err)
	}
	t.Run("server with TLS", func(t *testing.T) {
		for mode, want := range map[string]string{"": plain, config.SSLDisable: plain, config.SSLPrefer: secure, config.SSLRequire: secure, config.SSLVerifyCA: secure, config.SSLVerifyFull: secure} {
			check(t, mode, server(mode, ca.File), want)
		}
		check(t, "require without authorities", server(config.SSLRequire, ""), secure)
		check(t, "Unix socket", Server{Host: primary.SocketDir(), Port: uint16(primary.Port), TLS: config.ServerTLS{Mode: config.SSLVerifyFull, RootCert: ca.File}}, plain)
		for mode, want := range map[string]string{config.SSLPrefer: secure, config.SSLRequire: "unknown authority", config.SSLVerifyCA: "unknown authority", config.SSLVerifyFull: "unknown authority"} {
			check(t, mode+" with a strange authority", server(mode, stranger.File), want)
		}
		check(t, "authorities of the system", server(config.SSLVerifyFull, config.SystemRoots), "unknown authority")
	})
	t.Run("who may connect", func(t *testing.T) {
		for _, c := range []struct{ hba, mode, want string }{
			{access("hostssl", ""), config.SSLDisable, "no encryption"},
			{access("hostssl", ""), config.SSLPrefer, secure},
			{access("hostnossl", ""), config.SSLPrefer, plain},
			{access("hostnossl", ""), config.SSLRequire, "SSL encryption"},
		} {
			if err := primary.SetAccess(t.Context(), c.hba); err != nil {
				t.Fatal(err)
			}
			check(t, c.mode+" for "+c.hba, server(c.mode, ""), c.want)
		}
	})
	t.Run("certificate for another host", func(t *testing.T) {
		if err := errors.Join(primary.Encrypt(t.Context(), lab.Certificate{Cert: pem(t, elsewhere.CertFile), Key: pem(t, elsewhere.KeyFile), CA: pem(t, ca.File)}),
			primary.SetAccess(t.Context(), access("hostssl", ""))); err != nil {
			t.Fatal(err)
		}
		check(t, "verify-ca", server(config.SSLVerifyCA, ca.File), secure)
		check(t, "verify-full", server(config.SSLVerifyFull, ca.File), "failed to verify certificate")
	})
	t.Run("certificate of our own", func(t *testing.T) {
		if err := primary.SetAccess(t.Context(), access("hostssl", " clientcert=verify-full")); err != nil {
			t.Fatal(err)
		}
		s := server(config.SSLRequire, "")
		check(t, "without", s, "requires a valid client certificate")
		s.TLS.Cert, s.TLS.Key = mine.CertFile, mine.KeyFile
		check(t, "with", s, secure)
	})
	t.Run("cancel", func(t *testing.T) {
		if err := primary.SetAccess(t.Context(), access("hostssl", "")); err != nil {
			t.Fatal(err)
		}
		s := server(config.SSLVerifyCA, ca.File)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		c, err := s.Connect(ctx, Login{User: lab.User, Password: lab.Password, Database: lab.Database, Newest: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ctx)
		version := c.ParameterStatus("server_version")
		if long := len(c.SecretKey()) > 4; long != (version >= "18") {
			t.Errorf("server %s gave a key of %d bytes", version, len(c.SecretKey()))
		}
		pid, secret := c.PID(), c.SecretKey()
		slept := make(chan error, 1)
		go func() {
			_, err := c.Exec(ctx, "SELECT pg_sleep(3600)").ReadAll()
			slept <- err
		}()
		for { // a request that comes before the statement does nothing
			if err := s.Cancel(ctx, pid, secret); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-slept:
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "57014" {
					t.Errorf("got %v", err)
				}
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}

// A configuration whose files cannot be used is refused before anything connects.
func TestUnusableFiles(t *testing.T) {
	db := config.Backend{Name: "db", Address: "db:5432"}
	if _, err := Of(db, config.ServerTLS{Mode: config.SSLVerifyFull, RootCert: "/nonexistent"}, config.TCP{}); err == nil || !strings.Contains(err.Error(), "read authorities: open /nonexistent") {
		t.Errorf("got %v", err)
	}
	if _, err := Of(db, config.ServerTLS{Mode: config.SSLRequire, Cert: "/nonexistent", Key: "/nonexistent"}, config.TCP{}); err == nil || !strings.Contains(err.Error(), "read certificate: open /nonexistent") {
		t.Errorf("got %v", err)
	}
}

// serve answers one connection with some bytes after it has said something, and gives
// what it said after that.
func serve(t *testing.T, answers ...string) (Server, <-chan []byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	heard := make(chan []byte, len(answers))
	go func() {
		for _, a := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1000)
			n, _ := c.Read(b)
			_, _ = io.WriteString(c, a)
			rest, _ := io.ReadAll(io.LimitReader(c, 1))
			heard <- append(b[:n], rest...)
			c.Close()
		}
	}()
	return Server{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port), TLS: config.ServerTLS{Mode: config.SSLRequire}}, heard
}

// What comes with the server's yes is TLS or nothing: an attacker may have put an
// answer of its own behind it (CVE-2021-23222).
func TestBytesBehindTheAnswerAreNotTheServers(t *testing.T) {
	s, _ := serve(t, "SR\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I")
	if _, err := login(t, s); err == nil || !strings.Contains(err.Error(), "negotiate TLS with the server") {
		t.Errorf("got %v", err)
	}
}

// Whatever is no answer is refused where TLS is demanded, and tried again without it
// where it is not.
func TestOddAnswers(t *testing.T) {
	const full = "E\x00\x00\x00\x20SFATAL\x00VFATAL\x00C53300\x00Mfull\x00\x00\x00"
	s, _ := serve(t, full)
	if _, err := login(t, s); err == nil || !strings.Contains(err.Error(), `it answered "E"`) {
		t.Errorf("got %v", err)
	}
	s, heard := serve(t, "?", full)
	s.TLS.Mode = config.SSLPrefer
	var pg *pgconn.PgError
	if _, err := login(t, s); !errors.As(err, &pg) || pg.Code != "53300" {
		t.Errorf("got %v", err)
	}
	if first, second := <-heard, <-heard; len(first) < 8 || bytes.Contains(first, []byte("user")) || !bytes.Contains(second, []byte("user")) {
		t.Errorf("heard %q and %q", first, second)
	}
}

func TestNegotiationEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // accepts into its queue and says nothing
	s := Server{Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port), TLS: config.ServerTLS{Mode: config.SSLPrefer}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Connect(ctx, Login{User: "u", Password: "p"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := s.Cancel(ctx, 1, []byte("abcd")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
