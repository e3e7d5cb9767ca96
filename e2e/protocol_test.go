package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// dialAs opens a session whose startup packet is rewritten: another version of the
// protocol, and more parameters.
func (r *rig) dialAs(version uint32, more ...string) (*client, error) {
	cfg, err := pgconn.ParseConfig(r.dsn() + " max_protocol_version=3.2")
	if err != nil {
		return nil, err
	}
	cfg.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, c net.Conn) (net.Conn, error) {
		return &rewriter{Conn: c, version: version, more: more}, nil
	}
	conn, err := pgconn.ConnectConfig(timeout(r.t), cfg)
	if err != nil {
		return nil, err
	}
	c := &client{t: r.t, conn: conn}
	r.t.Cleanup(c.close)
	return c, nil
}

// rewriter changes the first packet that is written.
type rewriter struct {
	net.Conn
	version uint32
	more    []string
	done    bool
}

func (w *rewriter) Write(b []byte) (int, error) {
	if w.done {
		return w.Conn.Write(b)
	}
	w.done = true
	p := binary.BigEndian.AppendUint32(make([]byte, 4), w.version)
	p = append(p, bytes.TrimSuffix(b[8:], []byte{0})...)
	for _, s := range w.more {
		p = append(append(p, s...), 0)
	}
	p = append(p, 0)
	binary.BigEndian.PutUint32(p, uint32(len(p)))
	if _, err := w.Conn.Write(p); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Rule 5 and 31: whatever version of the protocol a client speaks, its cancel key
// finds its session on any router and cancels what it runs.
func TestCancelKeysOfEveryProtocolVersion(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Routers: 2, Lab: newCluster(t)}, nil)
	var all []*client
	for _, m := range r.Lab.Members() {
		all = append(all, direct(t, m))
	}
	for _, c := range []struct {
		name    string
		version uint32
		more    []string
		secret  int // bytes
	}{
		{"3.0", 3 << 16, nil, 4},
		{"3.0 with options of the protocol", 3 << 16, []string{"_pq_.x", "1", "_pq_.y", ""}, 4},
		{"3.1, which never was", 3<<16 | 1, nil, 4},
		{"3.2", 3<<16 | 2, nil, 32},
		{"newer, to see who breaks", 3<<16 | 9999, []string{"_pq_.test_protocol_negotiation", ""}, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // one on each router
				s, err := r.dialAs(c.version, c.more...)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(s.conn.SecretKey()); n != c.secret {
					t.Errorf("a secret of %d bytes, want %d", n, c.secret)
				}
				if got := s.one("SELECT 1"); got != "1" {
					t.Errorf("answer %q", got)
				}
				done := make(chan error, 1)
				go func() {
					_, err := s.run("SELECT pg_sleep(600)")
					done <- err
				}()
				awaitSleep(t, all)
				guess := bytes.Repeat([]byte{7}, c.secret)
				r.sendCancel(s.conn.PID(), guess)
				s.cancel()
				if err := <-done; sqlstate(err) != "57014" {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// A cancel request with a wrong key, a key of another length or none cancels nothing.
func TestWrongCancelKeysDoNothing(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	s, err := r.dialAs(3<<16 | 2)
	if err != nil {
		t.Fatal(err)
	}
	holder := direct(t, cluster.Primary())
	holder.must("SELECT pg_advisory_lock(7)")
	done := make(chan error, 1)
	go func() {
		_, err := s.run("BEGIN; SELECT pg_advisory_xact_lock(7); COMMIT")
		done <- err
	}()
	awaitLock(t, holder)
	secret := s.conn.SecretKey()
	for _, wrong := range [][]byte{secret[:4], secret[:31], append(bytes.Clone(secret), 0), bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 256)} {
		r.sendCancel(s.conn.PID(), wrong)
	}
	holder.must("SELECT pg_advisory_unlock(7)")
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
}

func (r *rig) sendCancel(pid uint32, secret []byte) {
	r.t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(secret)))
	b = binary.BigEndian.AppendUint32(b, 80877102)
	b = binary.BigEndian.AppendUint32(b, pid)
	if _, err := c.Write(append(b, secret...)); err != nil {
		r.t.Fatal(err)
	}
	if n, _ := c.Read(make([]byte, 1)); n != 0 {
		r.t.Errorf("a cancel request is answered")
	}
}

// Rule 19: everything that a client may say at startup counts, and reads as it does
// from the server itself, whichever server answers.
func TestStartupParameters(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	const shown = "SHOW statement_timeout; SHOW search_path; SHOW extra_float_digits; SHOW application_name; SHOW work_mem; SHOW DateStyle; " +
		"SHOW TimeZone; SHOW client_encoding; SHOW default_transaction_isolation; SHOW geqo; SELECT current_setting('my.own', true)"
	say := func(port int, env []string, dsn string) string {
		cmd := exec.CommandContext(timeout(t), "psql", "-X", "-w", "-At", "-c", shown,
			fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s sslmode=disable %s", port, lab.User, lab.Password, lab.Database, dsn))
		cmd.Env = append(append(os.Environ(), "LC_ALL=C", "PGPASSFILE=/dev/null"), env...)
		out, err := cmd.CombinedOutput()
		return strings.ReplaceAll(fmt.Sprint(string(out), err), fmt.Sprint(port), "PORT")
	}
	for name, c := range map[string]struct {
		env []string
		dsn string
	}{
		"nothing":              {},
		"one option":           {env: []string{"PGOPTIONS=-c statement_timeout=12345"}},
		"long options":         {env: []string{"PGOPTIONS=--search-path=a,b --work-mem=5MB"}},
		"spaces, escaped":      {env: []string{`PGOPTIONS=-c search_path=a,\ b -c my.own=x\ y\\z`}},
		"the last one wins":    {env: []string{"PGOPTIONS=-c work_mem=1MB -c work_mem=2MB"}},
		"short server flags":   {env: []string{"PGOPTIONS=-f s -O"}},
		"flags for superusers": {env: []string{"PGOPTIONS=-c log_statement=all"}},
		"options in the dsn":   {dsn: `options='-c geqo=off -c extra_float_digits=0'`},
		"drivers' favourites":  {env: []string{"PGDATESTYLE=German", "PGTZ=Asia/Tokyo", "PGCLIENTENCODING=LATIN1", "PGAPPNAME=it's me"}},
		"isolation":            {env: []string{"PGOPTIONS=-c default_transaction_isolation=repeatable\\ read"}},
		"unknown setting":      {env: []string{"PGOPTIONS=-c nosuchsetting=1"}},
		"impossible value":     {env: []string{"PGOPTIONS=-c work_mem=much"}},
		"not at startup":       {env: []string{"PGOPTIONS=-c shared_buffers=1GB"}},
		"nonsense":             {env: []string{"PGOPTIONS=-Q"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := say(cluster.Primary().Port, c.env, c.dsn)
			for range 3 { // also on connections that a session before has used
				if got := say(r.port, c.env, c.dsn); got != want {
					t.Errorf("the server says\n%s\npgpilot says\n%s", want, got)
				}
			}
		})
	}
	t.Run("reads on replicas have them too", func(t *testing.T) {
		c, err := r.dial(`options='-c TimeZone=Asia/Tokyo'`)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "a replica answers", func() bool {
			rows := c.must("SELECT inet_server_port(), to_char(timestamptz '2020-01-01 00:00+00', 'HH24')")
			if rows[0][1] != "09" {
				t.Fatalf("got %v", rows)
			}
			return rows[0][0] != fmt.Sprint(cluster.Primary().Port)
		})
	})
}
