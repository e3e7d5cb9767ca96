package upstream

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/certtest"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/dial"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// encrypted has the server take connections over TLS, and gives the file of the authority
// that vouches for it.
func encrypted(t *testing.T, server *lab.Member) string {
	t.Helper()
	ca := certtest.NewAuthority(t)
	pair := ca.Issue("server", "127.0.0.1")
	cert, err := os.ReadFile(pair.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Encrypt(t.Context(), lab.Certificate{Cert: string(cert), Key: string(key)}); err != nil {
		t.Fatal(err)
	}
	return ca.File
}

// A connection over TLS behaves at the loop's end like one without.
func TestConnectOverTLS(t *testing.T) {
	primary := labtest.Start(t, 0).Primary()
	root := encrypted(t, primary)
	goroutines, fds := runtime.NumGoroutine(), openFDs(t)
	c := NewConnector(dial.Server{Host: primary.Host, Port: uint16(primary.Port), TLS: config.ServerTLS{Mode: config.SSLVerifyFull, RootCert: root}},
		login, lab.Database, attempt)
	connect := func() *raw {
		t.Helper()
		m, err := c.Connect(t.Context(), login, lab.Database, noStartup)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, m)
	}

	a, b := connect(), connect()
	if got := a.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"); got != "t" {
		t.Error("the server sees no TLS")
	}
	if n := len(a.query("SELECT repeat('x', 20000000)")); n != 20000000 {
		t.Errorf("%d bytes of an answer of 20 MB", n)
	}
	if n := a.query("SELECT length('" + strings.Repeat("y", 20000000) + "')"); n != "20000000" {
		t.Errorf("the server got %s bytes of a request of 20 MB", n)
	}
	a.send("SELECT pg_sleep(3600)")
	cancelUntilAnswered(t, c.means.Load().server, a)
	if got := b.query("SELECT 'undisturbed'"); got != "undisturbed" {
		t.Errorf("the other connection: %q", got)
	}

	// The loop hangs up: the server's process ends.
	pid := a.query("SELECT pg_backend_pid()")
	a.Close()
	for deadline := time.Now().Add(patience); b.query("SELECT count(*) FROM pg_stat_activity WHERE pid = "+pid) != "0"; {
		if time.Now().After(deadline) {
			t.Fatal("the server's process lives on")
		}
	}

	// The server ends: the loop sees its last words and the end.
	gone := connect()
	b.query("SELECT pg_terminate_backend(" + gone.query("SELECT pg_backend_pid()") + ")")
	if said, err := io.ReadAll(gone.Conn); err != nil || !strings.Contains(string(said), "C57P01") {
		t.Errorf("the loop heard %q, %v", said, err)
	}
	gone.Close()
	b.Close()
	c.Close()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > goroutines || openFDs(t) > fds; {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, were %d; %d descriptors, were %d\n%s", runtime.NumGoroutine(), goroutines, openFDs(t), fds, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}

// Servers that have them give cancel keys that cannot be guessed, once it is known
// which server it is.
func TestLongCancelKeys(t *testing.T) {
	primary := labtest.Start(t, 0).Primary()
	c := connector(t, primary)
	first, err := c.Connect(t.Context(), login, lab.Database, noStartup)
	if err != nil {
		t.Fatal(err)
	}
	later, err := c.Connect(t.Context(), login, lab.Database, noStartup)
	if err != nil {
		t.Fatal(err)
	}
	want := 4
	if version := open(t, first).query("SHOW server_version_num"); version >= "18" {
		want = 32
	}
	if len(later.Secret) != want {
		t.Errorf("a secret of %d bytes, want %d", len(later.Secret), want)
	}
	r := open(t, later)
	r.send("SELECT pg_sleep(3600)")
	cancelUntilAnswered(t, c.means.Load().server, r)
}

// A write that takes long makes pgconn read in the background, and such a read may still
// be waiting when the connection is taken over: what it gets is the loop's all the same.
func TestNothingIsLostToAWaitingReader(t *testing.T) {
	primary := labtest.Start(t, 0).Primary()
	for _, how := range []string{config.SSLDisable, config.SSLVerifyFull} {
		t.Run(how, func(t *testing.T) {
			to := dial.Server{Host: primary.Host, Port: uint16(primary.Port), TLS: config.ServerTLS{Mode: how}}
			if how != config.SSLDisable {
				to.TLS.RootCert = encrypted(t, primary)
			}
			c := NewConnector(to, login, lab.Database, attempt)
			defer c.Close()
			pg, err := c.dial(t.Context(), login, lab.Database, nil)
			if err != nil {
				t.Fatal(err)
			}
			background, ok := pg.In.(interface {
				Start()
				Stop()
			})
			if !ok {
				t.Fatalf("pgconn reads with a %T, which does not read in the background", pg.In)
			}
			background.Start()
			for deadline := time.Now().Add(patience); !readsInBackground(); {
				if time.Now().After(deadline) {
					t.Fatal("nobody reads in the background")
				}
				runtime.Gosched()
			}
			background.Stop() // once something has come
			m, err := c.take(pg)
			if err != nil {
				t.Fatal(err)
			}
			r := open(t, m)
			defer r.Close()
			for _, want := range []string{"first", "second"} {
				if got := r.query("SELECT '" + want + "'"); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
}

// readsInBackground reports whether a reader of pgconn's waits for the network.
func readsInBackground() bool {
	stacks := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(g, "bgRead(") && strings.Contains(g, "poll.runtime_pollWait(") {
			return true
		}
	}
	return false
}
