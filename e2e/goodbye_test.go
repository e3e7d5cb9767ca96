package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// asleep is how many statements sleep for long on a server.
func asleep(watcher *client) string {
	return watcher.one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()")
}

// sendWithGoodbye sends messages in one piece with a goodbye.
func (w *wire) sendWithGoodbye(messages ...pgproto3.FrontendMessage) {
	w.t.Helper()
	for _, m := range messages {
		w.front.Send(m)
	}
	w.front.Send(&pgproto3.Terminate{})
	if err := w.front.Flush(); err != nil {
		w.t.Fatal(err)
	}
}

// Drivers say goodbye and close when they give up waiting, and what runs runs on. A pool full
// of that has connections for those who are there, in time.
func TestAClientGoneAfterItsGoodbyeGivesWay(t *testing.T) {
	t.Parallel()
	sleep := &pgproto3.Query{String: "INSERT INTO left_behind SELECT 1 FROM pg_sleep(600)"}
	large := &pgproto3.Query{String: "SELECT 1 /* " + strings.Repeat("x", 50<<10) + " */"}
	sequence := []pgproto3.FrontendMessage{&pgproto3.Parse{Query: sleep.String}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}}
	ways := map[string]struct {
		sent  []pgproto3.FrontendMessage
		reset bool
	}{
		"query":          {sent: []pgproto3.FrontendMessage{sleep}},
		"queries":        {sent: []pgproto3.FrontendMessage{sleep, sleep, sleep}},
		"sequences":      {sent: append(sequence, sequence...)},
		"transaction":    {sent: []pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN"}, sleep, &pgproto3.Query{String: "COMMIT"}}},
		"much behind":    {sent: []pgproto3.FrontendMessage{sleep, large}},
		"query, reset":   {sent: []pgproto3.FrontendMessage{sleep}, reset: true},
		"queries, reset": {sent: []pgproto3.FrontendMessage{sleep, sleep}, reset: true},
	}
	giveWay := func(t *testing.T, r *rig, more string) {
		watcher := direct(t, r.Lab.Primary())
		watcher.must("CREATE TABLE left_behind (a int); GRANT ALL ON left_behind TO PUBLIC")
		for _, mode := range []string{config.Transaction, config.Session} {
			r.configure(func(c *config.Config) {
				narrow(2)(c)
				c.Pool.Mode = mode
			})
			for name, way := range ways {
				if way.reset && more != "" {
					continue // it is the relay's connection that is reset
				}
				t.Run(mode+" mode, "+name, func(t *testing.T) {
					dial := func() *client {
						c, err := r.dial(more)
						if err != nil {
							t.Fatal(err)
						}
						c.t = t
						return c
					}
					for range 2 {
						w := hijack(t, dial())
						before := asleep(watcher)
						w.sendWithGoodbye(way.sent...)
						await(t, "the statement runs", func() bool { return asleep(watcher) != before })
						if way.reset {
							if err := w.conn.Conn.(*net.TCPConn).SetLinger(0); err != nil {
								t.Fatal(err)
							}
						}
						_ = w.conn.Conn.Close()
					}
					first, second := dial(), dial()
					first.must("BEGIN")
					first.must("INSERT INTO left_behind VALUES (2)")
					second.must("INSERT INTO left_behind VALUES (2)")
					first.must("COMMIT")
					await(t, "the statements are canceled", func() bool { return asleep(watcher) == "0" })
					first.close()
					second.close()
				})
			}
		}
		if got := watcher.one("SELECT count(*) FROM left_behind WHERE a = 1"); got != "0" {
			t.Errorf("%s rows of statements that were canceled", got)
		}
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		giveWay(t, newRig(t, newCluster(t), narrow(2)), "")
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		r, authority := encrypted(t, stacktest.Options{})
		giveWay(t, r, secure(authority))
	})
}

// Where nobody waits for its connection, what a client has sent before its goodbye is executed to
// its end, however long that takes.
func TestLastWordsRunOnWhereNobodyWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), narrow(2))
	c := r.connect()
	c.must("CREATE TABLE words (a int)")
	watcher := direct(t, r.Lab.Primary())
	for i, reset := range []bool{false, true} {
		w := hijack(t, r.connect())
		write := fmt.Sprintf("INSERT INTO words SELECT %d FROM pg_sleep(3)", i)
		executed := func() bool {
			return watcher.one(fmt.Sprintf("SELECT count(*) FROM words WHERE a = %d", i)) == "1"
		}
		w.sendWithGoodbye(&pgproto3.Query{String: write})
		await(t, "the statement runs", func() bool {
			return watcher.one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = '"+write+"'") == "1" || executed()
		})
		if reset {
			if err := w.conn.Conn.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		_ = w.conn.Conn.Close()
		await(t, "the statement has been executed", executed)
	}
}

// A client that has said goodbye and reads its answers has its connection for as long as they
// take, whoever waits for that: also one that has closed its side.
func TestAClientThatReadsBehindItsGoodbyeIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), narrow(2))
	other := r.connect()
	other.must("CREATE TABLE kept (a int)")
	holder := direct(t, r.Lab.Primary())
	holder.must("SELECT pg_advisory_lock(33)")
	open, closed := hijack(t, r.connect()), hijack(t, r.connect())
	for _, w := range []*wire{open, closed} {
		w.sendWithGoodbye(&pgproto3.Query{String: "/* pgpilot: primary */ SELECT 1 FROM pg_advisory_xact_lock(33)"})
	}
	if err := closed.conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r.until("both wait for the lock", func() bool {
		return holder.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "2"
	})
	inserted := make(chan error, 1)
	go func() {
		_, err := other.run("INSERT INTO kept VALUES (1)")
		inserted <- err
	}()
	// Until it has been found out, twice, that it is there.
	for range 2 {
		switch m, err := closed.front.Receive(); {
		case err != nil:
			t.Fatal(err)
		default:
			if _, ok := m.(*pgproto3.ParameterStatus); !ok {
				t.Fatalf("%T, want a ParameterStatus", m)
			}
		}
	}
	holder.must("SELECT pg_advisory_unlock(33)")
	for name, w := range map[string]*wire{"open": open, "closed": closed} {
		if got := w.untilEnd(); got != "TDCZ" {
			t.Errorf("%s: answered with %q, want one row", name, got)
		}
	}
	if err := <-inserted; err != nil {
		t.Error(err)
	}
}
