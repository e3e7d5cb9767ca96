package session_test

import (
	"bytes"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// BenchmarkRead takes a read from the client's bytes to the release of the
// connection, with its answer of one row: framing, the machine of states, the
// queue of answers. The verdict and the connection are given.
func BenchmarkRead(b *testing.B) {
	const text = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
	// One column: name, table, attribute, type int4, its size, modifier, format.
	const column = "\"\x00\x01c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00"
	simple := []string{"RowDescription", column, "DataRow", `"1`, "CommandComplete", `"SELECT 1`, "ReadyForQuery"}
	for _, c := range []struct {
		name         string
		prepare      []string
		sent, answer []string
	}{
		{name: "simple", answer: simple},
		{
			name:   "extended",
			sent:   []string{"Parse", `"`, `"` + text, "Bind", "Describe", `"P`, "Execute", "Sync"},
			answer: append([]string{"ParseComplete", "BindComplete"}, simple...),
		},
		{
			name:    "prepared",
			prepare: []string{"Parse", `"a`, `"` + text, "Describe", `"Sa`, "Sync"},
			sent:    []string{"Bind", `"a`, "Describe", `"P`, "Execute", "Sync"},
			answer:  append([]string{"BindComplete"}, simple...),
		},
	} {
		b.Run(c.name, func(b *testing.B) {
			sent := wire.AppendQuery(nil, text)
			if c.sent != nil {
				sent = mustEncode(b, clientKinds, c.sent)
			}
			r := newReader(b)
			if c.prepare != nil {
				r.run(mustEncode(b, clientKinds, c.prepare), mustEncode(b, serverKinds, []string{"ParseComplete", "ParameterDescription", "RowDescription", column, "ReadyForQuery"}))
			}
			answer := mustEncode(b, serverKinds, c.answer)
			b.ReportAllocs()
			for b.Loop() {
				r.run(sent, answer)
			}
		})
	}
}

// BenchmarkRow is what one more row of an answer costs: the answer of 1,000 rows
// comes in one piece.
func BenchmarkRow(b *testing.B) {
	const rows = 1000
	words := []string{"RowDescription"}
	for range rows {
		words = append(words, "DataRow", `"1`)
	}
	answer := mustEncode(b, serverKinds, append(words, "CommandComplete", `"SELECT 1000`, "ReadyForQuery"))
	query := wire.AppendQuery(nil, "SELECT 1")
	r := newReader(b)
	b.ReportAllocs()
	for b.Loop() {
		r.run(query, answer)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

// BenchmarkSettings is a simple read on a connection that has to be given what the client
// has set first. What that costs beyond Read/simple is the session's part of it; the
// server's, and the round trip, come on top.
func BenchmarkSettings(b *testing.B) {
	const sets = "SET work_mem = '64MB'"
	s := session.New(record(), &setting{steady: steady{keep: make([]byte, 0, 64)}})
	s.Start([]handoff.Parameter{{Name: "server_version", Value: "15.4"}})
	grant := func(slot session.Slot) *session.Grant {
		return &session.Grant{Slot: slot, Server: fence.Server{Backend: int(slot), Run: 1}, Statements: new(session.Statements), Settings: new(settings.Hash)}
	}
	done := mustEncode(b, serverKinds, []string{"CommandComplete", `"SET`, "ReadyForQuery"})
	set := wire.AppendQuery(nil, sets)
	s.FromClient(set)
	s.Granted(grant(session.PrimarySlot))
	s.FromClient(set)
	s.FromServer(session.PrimarySlot, done)
	s.Reset()
	query := wire.AppendQuery(nil, "SELECT 1")
	answer := mustEncode(b, serverKinds, []string{"RowDescription", "DataRow", `"1`, "CommandComplete", `"SELECT 1`, "ReadyForQuery"})
	g := grant(session.ReplicaSlot)
	b.ReportAllocs()
	for b.Loop() {
		s.FromClient(query)
		s.Reset()
		*g.Settings = settings.Hash{}
		s.Granted(g)
		if s.Phase() != session.Applying {
			b.Fatalf("%s; want the connection to be given the settings", s.Phase())
		}
		s.Reset()
		s.FromServer(session.ReplicaSlot, done)
		if n := s.FromClient(query); n != len(query) {
			b.Fatalf("used %d of %d, %s; want the query to be sent", n, len(query), s.Phase())
		}
		s.Reset()
		if n := s.FromServer(session.ReplicaSlot, answer); n != len(answer) || s.Phase() != session.Idle {
			b.Fatalf("used %d of %d, %s; want the answer to be shown", n, len(answer), s.Phase())
		}
		s.Reset()
	}
}

// setting knows that SET sets.
type setting struct{ steady }

func (e *setting) Verdict(s *session.Session, text []byte) (verdict.Verdict, bool) {
	if bytes.HasPrefix(text, []byte("SET")) {
		return verdict.Verdict{Kind: verdict.Write, Effects: verdict.Session, Fingerprint: 2}, true
	}
	return e.steady.Verdict(s, text)
}

// reader is a session all of whose statements read, with a connection at hand.
type reader struct {
	b     *testing.B
	s     *session.Session
	grant *session.Grant
}

func newReader(b *testing.B) *reader {
	s := session.New(record(), &steady{keep: make([]byte, 0, 64)})
	s.Start([]handoff.Parameter{{Name: "server_version", Value: "15.4"}})
	s.Reset()
	return &reader{b: b, s: s, grant: &session.Grant{
		Slot: session.ReplicaSlot, Server: fence.Server{Backend: 1, Run: 1}, Name: "r1", Statements: new(session.Statements), Settings: new(settings.Hash),
	}}
}

func (r *reader) run(sent, answer []byte) {
	s := r.s
	if n := s.FromClient(sent); n != 0 || s.Phase() != session.Queued {
		r.b.Fatalf("used %d, %s; want a request for a connection", n, s.Phase())
	}
	s.Reset()
	s.Granted(r.grant)
	if n := s.FromClient(sent); n != len(sent) {
		r.b.Fatalf("used %d of %d; want the request to be sent", n, len(sent))
	}
	s.Reset()
	if n := s.FromServer(session.ReplicaSlot, answer); n != len(answer) || s.Phase() != session.Idle {
		r.b.Fatalf("used %d of %d, %s; want the answer to be shown", n, len(answer), s.Phase())
	}
	s.Reset()
}

func mustEncode(b testing.TB, kinds []kind, words []string) []byte {
	m, err := encode(kinds, words)
	if err != nil {
		b.Fatal(err)
	}
	return m
}
