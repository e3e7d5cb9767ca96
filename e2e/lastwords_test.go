package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// What a client has sent in one piece with its goodbye, or before it has closed its side, is
// executed and answered as by a server: that reads one message after the other, and what ends
// the session last. A request that is not complete leaves what it has done outside of its
// transaction.
func TestLastWordsAreExecutedAsByAServer(t *testing.T) {
	t.Parallel()
	r := newSameRig(t)
	databases := [2]*client{}
	for i, name := range []string{"same_direct", "same_pilot"} {
		c, err := dial(t, r.Lab.Primary().DSNFor(lab.User, lab.Password, name))
		if err != nil {
			t.Fatal(err)
		}
		c.must("CREATE TABLE words (n int); CREATE SEQUENCE step")
		databases[i] = c
	}
	const (
		write = "INSERT INTO words VALUES (1)"
		step  = "SELECT nextval('step') FROM pg_sleep(0.05)"
		copy  = "COPY words FROM STDIN"
	)
	type messages = []pgproto3.FrontendMessage
	query := func(sql string) messages { return messages{&pgproto3.Query{String: sql}} }
	run := func(sql string) messages {
		return messages{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}}
	}
	then := func(parts ...messages) (all messages) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	sync, flush := messages{&pgproto3.Sync{}}, messages{&pgproto3.Flush{}}
	data, done := messages{&pgproto3.CopyData{Data: []byte("1\n2\n")}}, messages{&pgproto3.CopyDone{}}
	fail := messages{&pgproto3.CopyFail{Message: "no"}}
	for name, sent := range map[string]messages{
		"query":                          query(write),
		"slow query":                     query(write + "; " + step),
		"queries":                        then(query(write), query(step), query(write)),
		"query in a transaction":         query("BEGIN; " + write),
		"transaction":                    then(query("BEGIN"), query(write), query("COMMIT")),
		"sequence":                       then(run(write), sync),
		"slow sequence":                  then(run(step), run(write), sync),
		"reading sequence":               then(run("SELECT 1"), sync),
		"sequences":                      then(run(write), sync, run(step), sync, run(write), sync),
		"sequence in a transaction":      then(run("BEGIN"), run(write), sync),
		"sequence with flush":            then(run(write), flush, run(write), sync),
		"transaction of sequences":       then(run("BEGIN"), sync, run(write), sync, run("COMMIT"), sync),
		"open sequence":                  then(run(step), run(write)),
		"open sequence behind another":   then(run(write), sync, run(step), run(write)),
		"open sequence that commits":     then(run("BEGIN"), run(write), run("COMMIT")),
		"open sequence, flushed":         then(run(step), run(write), flush),
		"sequence that fails":            then(run(write), run("SELECT 1/0"), run(write), sync),
		"open sequence that fails":       then(run(step), run("SELECT 1/0"), run(step)),
		"sequence behind one that fails": then(run("SELECT 1/0"), sync, run(write), sync),
		"copy":                           then(query(copy), data, done),
		"copy that fails":                then(query(copy), data, fail, query(write)),
		"copy without an end":            then(query(write), query(copy), data),
		"copy and more":                  then(query(copy), data, done, query(write)),
		"copy in a sequence":             then(run(copy), data, done, sync),
		"copy in a sequence, two syncs":  then(run(copy), sync, data, done, sync),
		"copy in an open sequence":       then(run(copy), data, done),
		"copy in a sequence, no end":     then(run(write), sync, run(copy), data),
		"half a message":                 then(run(write), sync, messages{&half{}}),
		"half a message in a sequence":   then(run(write), messages{&half{}}),
	} {
		quiet := false // nothing is sent to the client but the last answer
		for _, end := range []struct {
			name                         string
			terminate, closeWrite, close bool
		}{
			{name: "goodbye and half close", terminate: true, closeWrite: true},
			{name: "goodbye", terminate: true},
			{name: "half close", closeWrite: true},
			{name: "goodbye and close", terminate: true, close: true},
		} {
			if end.name == "goodbye" && strings.HasPrefix(name, "half") {
				continue // the rest of the message is waited for
			}
			if end.close && !quiet {
				continue // how far a server comes before it notices is a matter of chance
			}
			t.Run(name+", "+end.name, func(t *testing.T) {
				for _, db := range databases {
					db.must("DELETE FROM words; SELECT setval('step', 1, false)")
				}
				through, straight := r.twins(t)
				pid := straight.conn.PID
				got := [2]string{}
				for i, side := range []*wire{straight, through} {
					var b []byte
					for _, m := range sent {
						var err error
						if b, err = m.Encode(b); err != nil {
							t.Fatal(err)
						}
					}
					if end.terminate {
						b = append(b, 'X', 0, 0, 0, 4)
					}
					if _, err := side.conn.Conn.Write(b); err != nil {
						t.Fatal(err)
					}
					if end.close {
						_ = side.conn.Conn.Close()
						continue
					}
					if end.closeWrite {
						if err := side.conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
							t.Fatal(err)
						}
					}
					got[i] = side.untilEnd()
				}
				if got[0] != got[1] {
					t.Errorf("direct:\n%s\nthrough pgpilot:\n%s", got[0], got[1])
				}
				quiet = !end.close && strings.Count(got[0], "Z")+strings.Count(got[0], "G") <= 1
				await(t, "the server process is gone", func() bool {
					return databases[0].one(fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid)) == "0"
				})
				const left = "SELECT concat_ws(' ', (SELECT count(*) FROM words), (SELECT last_value FROM step), (SELECT is_called FROM step)) /* pgpilot: primary */"
				want := databases[0].one(left)
				await(t, "what is left is "+want, func() bool { return databases[1].one(left) == want })
			})
		}
	}
}

// A client that has closed its side behind its requests, and reads when it likes, gets its whole
// answer. Then its connection to the server is free: also where a server would still wait for
// the end of a sequence.
func TestAHalfClosedClientIsAnsweredAndKeepsNothing(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(1))
	var all []*client
	for _, m := range cluster.Members() {
		all = append(all, direct(t, m))
	}
	other := r.connect()
	other.must("CREATE TABLE kept (n int)")
	const rows = 12000
	large := fmt.Sprintf("SELECT repeat('x', 1000) AS large FROM generate_series(1, %d)", rows)
	for name, c := range map[string]struct {
		sent  []pgproto3.FrontendMessage
		stuck bool // in the middle of its answer
		want  int  // rows
	}{
		"large answer":   {[]pgproto3.FrontendMessage{&pgproto3.Query{String: large}}, true, rows},
		"large sequence": {[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: large}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}}, true, rows},
		"open sequence":  {[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "INSERT INTO kept VALUES (1)"}, &pgproto3.Bind{}, &pgproto3.Execute{}}, false, 0},
		"copy":           {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "COPY kept FROM STDIN"}, &pgproto3.CopyData{Data: []byte("1\n")}}, false, 0},
		"transaction":    {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN; INSERT INTO kept VALUES (1)"}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := hijack(t, r.connect())
			conn := w.conn.Conn.(*net.TCPConn)
			if err := conn.SetReadBuffer(128 << 10); err != nil {
				t.Fatal(err)
			}
			for _, m := range c.sent {
				w.front.Send(m)
			}
			if err := w.front.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if c.stuck {
				await(t, "a server waits for somebody to read", func() bool {
					for _, s := range all {
						if s.one("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND query LIKE '% AS large %'") != "0" {
							return true
						}
					}
					return false
				})
				if err := conn.SetReadBuffer(1 << 20); err != nil {
					t.Fatal(err)
				}
			}
			got := w.untilEnd()
			if n := strings.Count(got, "D"); n != c.want || c.stuck && !strings.HasSuffix(got, "CZ") {
				t.Errorf("%d rows of %d, ending in %q", n, c.want, got[max(0, len(got)-20):])
			}
			for range 3 { // sessions have one connection to each server for all of them
				other.must("INSERT INTO kept VALUES (2)")
				other.must("SELECT count(*) FROM kept")
			}
			if got := other.one("SELECT count(*) FROM kept WHERE n = 1"); got != "0" {
				t.Errorf("%s rows of what was not finished", got)
			}
		})
	}
}

// A client that leaves over TLS in the middle of a statement leaves nothing running.
func TestClientGoneOverTLSFreesItsServer(t *testing.T) {
	t.Parallel()
	r, authority := encrypted(t, stacktest.Options{})
	var all []*client
	for _, m := range r.Lab.Members() {
		all = append(all, direct(t, m))
	}
	c, err := r.dial(secure(authority))
	if err != nil {
		t.Fatal(err)
	}
	w := hijack(t, c)
	w.front.SendQuery(&pgproto3.Query{String: "SELECT pg_sleep(600)"})
	if err := w.front.Flush(); err != nil {
		t.Fatal(err)
	}
	awaitSleep(t, all)
	_ = w.conn.Conn.Close()
	await(t, "the statement is canceled", func() bool {
		for _, s := range all {
			if s.one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()") != "0" {
				return false
			}
		}
		return true
	})
}

// half is a message of which the end never comes: a Query.
type half struct{ pgproto3.Query }

func (*half) Encode(b []byte) ([]byte, error) { return append(b, "Q\x00\x00\x00\x12INSERT "...), nil }

// untilEnd reads until the connection ends and gives the types of the messages up to the last
// ReadyForQuery: what follows of a request that never ends depends on what else makes
// the server flush it.
func (w *wire) untilEnd() string {
	w.t.Helper()
	var all strings.Builder
	for {
		m, err := w.front.Receive()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			got := all.String()
			return got[:strings.LastIndexByte(got, 'Z')+1]
		}
		if err != nil {
			w.t.Fatalf("%v after %d messages", err, all.Len())
		}
		b, err := m.(interface{ Encode([]byte) ([]byte, error) }).Encode(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if b[0] == 'S' {
			continue // comes at any time
		}
		all.WriteByte(b[0])
		if e, ok := m.(*pgproto3.ErrorResponse); ok {
			all.WriteString("(" + e.Code + ")")
		}
	}
}
