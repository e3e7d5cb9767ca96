package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/certtest"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// encrypted starts a stack that speaks TLS to clients and to servers, and whose servers
// take nobody else.
func encrypted(t *testing.T, o stacktest.Options) (r *rig, authority string) {
	t.Helper()
	ca := certtest.NewAuthority(t)
	server, front := ca.Issue("server", "127.0.0.1"), ca.Issue("pgpilot", "127.0.0.1", "localhost")
	cert, err := os.ReadFile(server.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(server.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	o.Lab = newCluster(t)
	for _, m := range o.Lab.Members() {
		if err := m.Encrypt(timeout(t), lab.Certificate{Cert: string(cert), Key: string(key)}); err != nil {
			t.Fatal(err)
		}
		// The replicas' own connections and the superuser's stay as they are.
		if err := m.SetAccess(timeout(t), "host all,replication postgres 127.0.0.1/32 scram-sha-256\nhostssl all,replication all 127.0.0.1/32 scram-sha-256\n"); err != nil {
			t.Fatal(err)
		}
	}
	return rigOf(t, o, func(c *config.Config) {
		c.ServerTLS = config.ServerTLS{Mode: config.SSLVerifyFull, RootCert: ca.File}
		c.TLS.CertFile, c.TLS.KeyFile = front.CertFile, front.KeyFile
	}), ca.File
}

// secure is what a client adds to its connection string.
func secure(authority string) string {
	return "sslmode=verify-full channel_binding=require sslrootcert=" + authority
}

func TestTLSOnBothSides(t *testing.T) {
	t.Parallel()
	r, authority := encrypted(t, stacktest.Options{})
	c, err := r.dial(secure(authority))
	if err != nil {
		t.Fatal(err)
	}
	c.must("CREATE TABLE notes (body text)")
	r.until("the session reads from a replica", func() bool { return c.port() != r.Lab.Primary().Port })

	// Everything that pgpilot has to a server is encrypted.
	if got := c.one("/* pgpilot: primary */ SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE usename = '" + lab.User + "' AND NOT s.ssl"); got != "0" {
		t.Errorf("%s connections of pgpilot are in the clear", got)
	}
	if got := c.one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"); got != "t" {
		t.Errorf("ssl is %s for a session", got)
	}

	for range 20 { // written, and read at once from wherever it may be
		c.must("INSERT INTO notes VALUES ('x')")
	}
	if got := c.one("SELECT count(*) FROM notes"); got != "20" {
		t.Errorf("read %s of 20 own writes", got)
	}
	if n := len(c.one("SELECT repeat('y', 30000000)")); n != 30000000 {
		t.Errorf("%d bytes of an answer of 30 MB", n)
	}
	if got := c.one("SELECT length('" + strings.Repeat("z", 10000000) + "')"); got != "10000000" {
		t.Errorf("%s bytes of a statement of 10 MB arrived", got)
	}
	var data strings.Builder
	for n := range 200000 {
		fmt.Fprintf(&data, "row %d\n", n)
	}
	if _, err := c.conn.CopyFrom(timeout(t), strings.NewReader(data.String()), "COPY notes FROM STDIN"); err != nil {
		t.Fatal(err)
	}
	var back strings.Builder
	if _, err := c.conn.CopyTo(timeout(t), &back, "COPY notes TO STDOUT"); err != nil || back.Len() != data.Len()+20*len("x\n") {
		t.Errorf("copied %d bytes back, %v", back.Len(), err)
	}

	var all []*client
	for _, m := range r.Lab.Members() {
		all = append(all, direct(t, m))
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.run("SELECT pg_sleep(600)")
		done <- err
	}()
	awaitSleep(t, all)
	c.cancel()
	if err := <-done; sqlstate(err) != "57014" {
		t.Errorf("canceled: %v", err)
	}
	if got := c.one("SELECT 'alive'"); got != "alive" {
		t.Errorf("afterwards: %q", got)
	}
}

// psql is what people have.
func TestPsqlOverTLS(t *testing.T) {
	t.Parallel()
	r, authority := encrypted(t, stacktest.Options{})
	psql := func(how, sql string) (string, error) {
		cmd := exec.CommandContext(timeout(t), "psql", "-X", "-w", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql,
			fmt.Sprintf("host=localhost port=%d user=%s password=%s dbname=%s %s", r.port, lab.User, lab.Password, lab.Database, how))
		cmd.Env = append(os.Environ(), "LC_ALL=C", "PGPASSFILE=/dev/null")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for _, how := range []string{"", "sslmode=disable", "sslmode=require", secure(authority)} {
		if out, err := psql(how, "SELECT count(*) FROM generate_series(1, 100000)"); err != nil || out != "100000" {
			t.Errorf("%q: %s, %v", how, out, err)
		}
	}
	if out, _ := psql(secure(authority), `\conninfo`); !strings.Contains(out, "TLSv1.3") {
		t.Errorf("psql says %q", out)
	}
}

// A killed router ends its sessions, and their clients see a clean end. The TLS
// connections of others do not notice.
func TestKilledRouterOverTLS(t *testing.T) {
	t.Parallel()
	r, authority := encrypted(t, stacktest.Options{Routers: 2})
	// Half of the sessions go to each router only if none of the start's is counted.
	r.until("the sessions of the start are over", func() bool { return r.metric("pgpilot_listener_clients") == 0 })
	type end struct {
		session int
		text    []byte
		err     error
	}
	var all []*client
	ends := make(chan end, 8)
	for i := range cap(ends) {
		c, err := r.dial(secure(authority))
		if err != nil {
			t.Fatal(err)
		}
		c.one("SELECT 1")
		all = append(all, c)
		go func() {
			text, err := io.ReadAll(c.conn.Conn())
			ends <- end{i, text, err}
		}()
	}
	next := func() end {
		select {
		case e := <-ends:
			return e
		case <-time.After(patience):
			t.Fatal("a client waits in vain for the end of its session")
			return end{}
		}
	}
	r.kill("router", 1)
	dead := map[int]bool{}
	for range len(all) / 2 {
		e := next()
		dead[e.session] = true
		if e.err != nil || len(e.text) != 0 {
			t.Errorf("a client sees %q, %v", e.text, e.err)
		}
	}
	for i, c := range all { // the others wait in vain
		if err := c.conn.Conn().SetReadDeadline(time.Now()); err != nil && !dead[i] {
			t.Error(err)
		}
	}
	for range len(all) - len(dead) {
		if e := next(); !os.IsTimeout(e.err) || len(e.text) != 0 {
			t.Errorf("a client of the other router sees %q, %v", e.text, e.err)
		}
	}
	for i, c := range all {
		if dead[i] {
			continue
		}
		if err := c.conn.Conn().SetReadDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		if got := c.one("SELECT 'alive'"); got != "alive" {
			t.Errorf("a session of the other router: %q", got)
		}
	}
}

// pgbench works over TLS in every protocol, with reads on the replicas.
func TestPgbenchOverTLS(t *testing.T) {
	t.Parallel()
	r, authority := encrypted(t, stacktest.Options{})
	bench := func(args ...string) string {
		cmd := exec.CommandContext(timeoutOf(t, wholeRun), "pgbench", append(args, "-h", "localhost", "-p", fmt.Sprint(r.port), "-U", lab.User, lab.Database)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C", "PGPASSWORD="+lab.Password, "PGSSLMODE=verify-full", "PGSSLROOTCERT="+authority)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pgbench %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	bench("-i", "-q", "-s", "1")
	r.caughtUp()
	for _, mode := range []string{"simple", "extended", "prepared"} {
		if out := bench("-n", "-S", "-M", mode, "-c", "4", "-t", "200"); !strings.Contains(out, "number of transactions actually processed: 800/800") {
			t.Errorf("%s: %s", mode, out)
		}
		if out := bench("-n", "-M", mode, "-c", "4", "-t", "50", "-C"); !strings.Contains(out, "number of transactions actually processed: 200/200") {
			t.Errorf("%s, connecting anew each time: %s", mode, out)
		}
	}
}

// A certificate that is renewed while clients come and go is shown to those that come
// after the signal, and costs nobody a login.
func TestCertificateIsRenewedUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	renew := func() (authority string) {
		ca := certtest.NewAuthority(t)
		p := ca.Issue("pgpilot", "127.0.0.1", "localhost")
		// As renewal tools do: whoever reads sees the old file or the new one. The two do not
		// change together, so a reload in between must not take them.
		if err := errors.Join(os.Rename(p.KeyFile, key), os.Rename(p.CertFile, cert)); err != nil {
			t.Fatal(err)
		}
		return ca.File
	}
	renew()
	r := newRig(t, newCluster(t), func(c *config.Config) { c.TLS.CertFile, c.TLS.KeyFile = cert, key })
	stays, err := r.dial("sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var logins atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := dial(t, r.dsn()+" sslmode=require channel_binding=require")
				if err != nil {
					t.Errorf("a login during the renewal: %v", err)
					return
				}
				c.close()
				logins.Add(1)
			}
		})
	}
	for range 10 {
		before := logins.Load()
		authority := renew()
		if err := r.Service("listener", 1).Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		r.until("the new certificate is shown", func() bool {
			c, err := r.dial(secure(authority))
			if err == nil {
				c.close()
			}
			return err == nil
		})
		r.until("clients come and go", func() bool { return logins.Load() > before+5 || t.Failed() })
	}
	close(stop)
	wg.Wait()
	if got := stays.one("SELECT 'undisturbed'"); got != "undisturbed" {
		t.Errorf("a session from before: %q", got)
	}
}

// A listener that stops lets sessions over TLS finish what they do and tells them why
// they end; those without TLS go on.
func TestStoppedListenerAndItsSessions(t *testing.T) {
	t.Parallel()
	r, authority := encrypted(t, stacktest.Options{})
	busy, err := r.dial(secure(authority))
	if err != nil {
		t.Fatal(err)
	}
	idle, err := r.dial(secure(authority))
	if err != nil {
		t.Fatal(err)
	}
	plain := r.connect()
	holder := direct(t, r.Lab.Primary())
	holder.must("SELECT pg_advisory_lock(7)")
	answered := make(chan error, 1)
	go func() {
		rows, err := busy.run("BEGIN; SELECT pg_advisory_xact_lock(7); COMMIT; SELECT 'finished'")
		if err == nil && rows[0][0] != "finished" {
			err = fmt.Errorf("got %v", rows)
		}
		answered <- err
	}()
	awaitLock(t, holder)
	stopped := make(chan error, 1)
	go func() { stopped <- r.Service("listener", 1).Terminate(timeout(t)) }()
	r.until("the idle session has ended", func() bool { _, err = idle.run("SELECT 1"); return err != nil })
	if sqlstate(err) != "57P01" {
		t.Errorf("the idle session: %v", err)
	}
	holder.must("SELECT pg_advisory_unlock(7)")
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("what ran: %v", err)
	}
	if _, err := busy.run("SELECT 1"); sqlstate(err) != "57P01" {
		t.Errorf("the busy session: %v", err)
	}
	if got := plain.one("SELECT 'alive'"); got != "alive" {
		t.Errorf("a session without TLS: %q", got)
	}
	r.start("listener", 1)
	again, err := r.dial(secure(authority))
	if err != nil {
		t.Fatal(err)
	}
	again.one("SELECT 1")
}
