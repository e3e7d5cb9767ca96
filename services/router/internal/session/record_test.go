package session_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// TestPreparedTravels moves what a client has prepared into another session, by
// way of a record: it uses it as if nothing had happened, and what it was told of a
// statement still counts.
func TestPreparedTravels(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		"start server_version=15.4", `known "SELECT 1" read`, `known "SELECT \xff" write unproven`,
		`known "SET TimeZone TO a" write session`, `client Query "SET TimeZone TO a"`, "granted primary",
		`primary CommandComplete "SET" ReadyForQuery`,
		`client Parse "a" "SELECT 1" "23" Describe "Sa" Parse "" "SELECT \xff" Parse "d" "DEALLOCATE a" Sync`, "granted primary",
		`primary ParseComplete ParameterDescription "\x00\x01\x00\x00\x00\x17" RowDescription "id" ParseComplete ReadyForQuery`,
	} {
		p.event(e)
	}
	p.o.move(func(l *handoff.Live) {
		if n := len(l.Prepared); n != 3 {
			t.Fatalf("%d statements travel, want 3: %+v", n, l.Prepared)
		}
	}, nil)
	for _, c := range []struct{ event, want string }{
		{`client Bind "a" Execute Sync`, "acquire read"},
		{"granted replica", `replica< Query "RESET ROLE;RESET ALL\n;SET TimeZone TO a"`},
		{`replica CommandComplete "SET" ReadyForQuery`, `replica< Parse "pgpilot_`},
		{`replica ParseComplete ParameterDescription "\x00\x01\x00\x00\x00\x17" RowDescription "other"`, "acquire unprepared"},
		{"granted primary conn=2", `primary< Query "RESET`},
		{`primary CommandComplete "SET" ReadyForQuery`, `primary< Parse "pgpilot_`},
		{`primary ParseComplete ParameterDescription "\x00\x01\x00\x00\x00\x17" RowDescription "id"`, `primary< Bind "" "pgpilot_`},
		{`primary BindComplete CommandComplete "SELECT 0" ReadyForQuery`, "client< BindComplete"},
		{`client Bind "d" Execute Sync`, "acquire write"},
		{"granted primary", `primary< Close P""`},
		{"primary CloseComplete ReadyForQuery", `client< BindComplete | CommandComplete "DEALLOCATE"`},
	} {
		if got := strings.Join(p.event(c.event), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s led to\n%s\nwant %s", c.event, got, c.want)
		}
	}
}

// TestOwnParametersTravel moves a session that has set parameters of the router's: they
// still hold, and RESET leads back to what the client began with.
func TestOwnParametersTravel(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		`startup "pgpilot.route=primary" "pgpilot.freshness=5s"`, "start server_version=15.4",
		`client Query "SET pgpilot.route = replica" Query "SET pgpilot.fencing = relaxed"`,
		`client Parse "s" "SHOW pgpilot.route" Sync`,
	} {
		p.event(e)
	}
	p.o.move(nil, nil)
	for _, c := range []struct{ event, want string }{
		{`client Bind "s" Execute Sync`, `DataRow "replica"`},
		{`client Query "SHOW pgpilot.fencing"`, `DataRow "relaxed"`},
		{`client Query "SHOW pgpilot.freshness"`, `DataRow "5s"`},
		{`client Query "RESET pgpilot.route" Query "SHOW pgpilot.route"`, `DataRow "primary"`},
	} {
		if got := strings.Join(p.event(c.event), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s led to\n%s\nwant %s", c.event, got, c.want)
		}
	}
}

// TestHintsTravel moves a session with a prepared statement that has a hint, which has
// been told of one that is not understood.
func TestHintsTravel(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		"start server_version=15.4", `known "SELECT 1 /* pgpilot: primary */" read`, `known "SELECT 1 /* pgpilot: sideways */" read`,
		`client Parse "a" "SELECT 1 /* pgpilot: primary */" Sync`, "granted primary", "primary ParseComplete ReadyForQuery",
		`client Query "SELECT 1 /* pgpilot: sideways */"`, "granted replica", `replica RowDescription DataRow "1" CommandComplete "SELECT 1" ReadyForQuery`,
	} {
		p.event(e)
	}
	p.o.move(nil, nil)
	for _, c := range []struct{ event, want, not string }{
		{`client Bind "a" Execute Sync`, "acquire hint", "acquire read"},
		{"granted primary", "primary< Close", "WARNING"}, // what is there may be older than the session, as far as is known here
		{"primary CloseComplete ParseComplete ParameterDescription RowDescription", "primary< Bind", "WARNING"},
		{"primary BindComplete DataRow \"1\" CommandComplete \"SELECT 1\" ReadyForQuery", "idle", "WARNING"},
		{`client Query "SELECT 1 /* pgpilot: sideways */"`, "acquire read", "WARNING"},
	} {
		if got := strings.Join(p.event(c.event), "\n"); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s led to\n%s\nwant %s, and not %s", c.event, got, c.want, c.not)
		}
	}
}

// TestTokensTravel moves a relaxed session that was given a token: it is still fenced.
func TestTokensTravel(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		"set strict=off", "start server_version=15.4", `known "SELECT 1" read`,
		`client Query "SET pgpilot.fence = '7301234567890123456/1@0/0:0/300'"`, "admitted 1@0/300",
	} {
		p.event(e)
	}
	p.o.move(nil, nil)
	if got := strings.Join(p.event(`client Query "SELECT 1"`), "\n"); !strings.Contains(got, "acquire read fence 1@0/300") {
		t.Errorf("a read asks for\n%s", got)
	}
}

// TestPortalsTravelWithTheirSavepoints moves a session in a transaction in which portals
// were bound before and behind a savepoint: ROLLBACK TO ends those behind.
func TestPortalsTravelWithTheirSavepoints(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		"start server_version=15.4", `known "BEGIN" write transaction`, `known "SAVEPOINT a" write transaction`, `known "ROLLBACK TO a" write transaction`,
		`client Parse "s" "SHOW pgpilot.route" Sync`, `client Query "BEGIN"`, "granted primary", `primary CommandComplete "BEGIN" ReadyForQuery T`,
		`client Bind "before" "s" Sync`, "primary ReadyForQuery T", `client Query "SAVEPOINT a"`, `primary CommandComplete "SAVEPOINT" ReadyForQuery T`,
		`client Bind "behind" "s" Sync`, "primary ReadyForQuery T",
	} {
		p.event(e)
	}
	p.o.move(nil, func(l *handoff.Lease) *session.Grant {
		statements := new(session.Statements)
		statements.Unpack(l)
		return &session.Grant{Slot: session.PrimarySlot, Server: fence.Server{Run: 1}, Statements: statements, Settings: new(settings.Hash)}
	})
	for _, c := range []struct{ event, want string }{
		{`client Query "ROLLBACK TO a"`, "primary< Query"},
		{`primary CommandComplete "ROLLBACK" ReadyForQuery T`, "ReadyForQuery T"},
		{`client Execute "before" Sync`, `DataRow "auto"`},
		{`primary ReadyForQuery T`, "idle"},
		{`client Execute "behind" Sync`, `primary< Execute "behind"`},
	} {
		if got := strings.Join(p.event(c.event), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s led to\n%s\nwant %s", c.event, got, c.want)
		}
	}
}

// TestLongSequence sends a sequence that reads and is longer than what is gathered
// of one: it goes to the primary and streams there, though its Sync is still to
// come.
func TestLongSequence(t *testing.T) {
	p := newPlay(t, 0)
	p.event(`known "SELECT 1" read`)
	p.event("start server_version=15.4")
	b, err := encode(clientKinds, []string{"Parse", "Bind", `"`, `"`, "size=3000000", "Execute", "Sync"})
	if err != nil {
		t.Fatal(err)
	}
	acquired := 0
	for n := 0; n < len(b); {
		piece := b[n:min(n+64<<10, len(b))]
		p.o.client(piece)
		n += len(piece)
		if p.o.s.Phase() == session.Queued {
			acquired = n
			p.event("granted primary")
		}
		if acquired > 0 && len(p.o.clientUnread) > 0 {
			t.Fatalf("%d bytes wait", len(p.o.clientUnread))
		}
	}
	if acquired == 0 || acquired > 1<<20+64<<10 || !bytes.Equal(p.sent["primary"], b) {
		t.Errorf("a connection was asked for at %d bytes, and %d were sent", acquired, len(p.sent["primary"]))
	}
}

// TestSteadyReadAllocatesNothing runs a simple read from the client's bytes to
// the release of the connection.
func TestSteadyReadAllocatesNothing(t *testing.T) {
	for _, text := range []string{"SELECT 1", "/* a */ SELECT 1 -- b"} {
		t.Run(text, func(t *testing.T) { steadyRead(t, text) })
	}
}

func steadyRead(t *testing.T, text string) {
	t.Helper()
	env := &steady{keep: make([]byte, 0, 64)}
	s := session.New(record(), env)
	s.Start([]handoff.Parameter{{Name: "server_version", Value: "15.4"}})
	s.Reset()
	query := wire.AppendQuery(nil, text)
	answer, err := encode(serverKinds, []string{"RowDescription", "DataRow", `"1`, "CommandComplete", `"SELECT 1`, "ReadyForQuery"})
	if err != nil {
		t.Fatal(err)
	}
	grant := &session.Grant{Slot: session.ReplicaSlot, Server: fence.Server{Backend: 1, Run: 1}, Name: "r1", Statements: new(session.Statements), Settings: new(settings.Hash)}
	read := func() {
		if n := s.FromClient(query); n != 0 || s.Phase() != session.Queued {
			t.Fatalf("used %d, %s; want a request for a connection", n, s.Phase())
		}
		s.Reset()
		s.Granted(grant)
		if n := s.FromClient(query); n != len(query) || s.Phase() != session.Busy {
			t.Fatalf("used %d, %s; want the query to be sent", n, s.Phase())
		}
		s.Reset()
		if n := s.FromServer(session.ReplicaSlot, answer); n != len(answer) || s.Phase() != session.Idle || s.Holds(session.ReplicaSlot) {
			t.Fatalf("used %d, %s; want the answer to be shown and the connection released", n, s.Phase())
		}
		if sends := s.Actions()[0]; len(s.Actions()) != 3 || len(sends.Data) != len(answer) {
			t.Fatalf("%+v; want one send of the whole answer", s.Actions())
		}
		s.Reset()
	}
	if n := testing.AllocsPerRun(200, read); n != 0 {
		t.Errorf("a read allocates %v times", n)
	}
}

// TestSteadySequencesAllocateNothing runs reads of the extended protocol from the
// client's bytes to the release of the connection: of a named statement that the
// connection holds, and of an unnamed one, as the drivers send them. Each leaves
// in one piece.
func TestSteadySequencesAllocateNothing(t *testing.T) {
	for name, c := range map[string]struct{ sent, answer []string }{
		"named": {
			sent:   []string{"Bind", `"a`, "Execute", "Sync"},
			answer: []string{"BindComplete", "DataRow", `"1`, "CommandComplete", `"SELECT 1`, "ReadyForQuery"},
		},
		"unnamed": {
			sent:   []string{"Parse", "Bind", "Describe", `"P`, "Execute", "Sync"},
			answer: []string{"ParseComplete", "BindComplete", "RowDescription", "DataRow", `"1`, "CommandComplete", `"SELECT 1`, "ReadyForQuery"},
		},
		"unnamed, with a comment": {
			sent:   []string{"Parse", `"/* a */ SELECT 1`, "Bind", "Describe", `"P`, "Execute", "Sync"},
			answer: []string{"ParseComplete", "BindComplete", "RowDescription", "DataRow", `"1`, "CommandComplete", `"SELECT 1`, "ReadyForQuery"},
		},
		"unnamed, its statement described": {
			sent:   []string{"Parse", "Describe", "Bind", "Execute", "Sync"},
			answer: []string{"ParseComplete", "ParameterDescription", "RowDescription", "BindComplete", "DataRow", `"1`, "CommandComplete", `"SELECT 1`, "ReadyForQuery"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := &steady{keep: make([]byte, 0, 64)}
			s := session.New(record(), env)
			s.Start([]handoff.Parameter{{Name: "server_version", Value: "15.4"}})
			s.Reset()
			grant := &session.Grant{Slot: session.ReplicaSlot, Server: fence.Server{Backend: 1, Run: 1}, Name: "r1", Statements: new(session.Statements), Settings: new(settings.Hash)}
			run := func(sent, answer []byte) {
				if n := s.FromClient(sent); n != 0 || s.Phase() != session.Queued {
					t.Fatalf("used %d, %s; want a request for a connection", n, s.Phase())
				}
				s.Reset()
				s.Granted(grant)
				if n := s.FromClient(sent); n != len(sent) || s.Phase() != session.Busy {
					t.Fatalf("used %d, %s; want the sequence to be sent", n, s.Phase())
				}
				if as := s.Actions(); len(as) != 1 || as[0].Op != session.OpToServer {
					t.Fatalf("%+v; want one send of the whole sequence", as)
				}
				s.Reset()
				if n := s.FromServer(session.ReplicaSlot, answer); n != len(answer) || s.Phase() != session.Idle || s.Holds(session.ReplicaSlot) {
					t.Fatalf("used %d, %s; want the answer to be shown and the connection released", n, s.Phase())
				}
				if as := s.Actions(); len(as) != 3 || len(as[0].Data) != len(answer) {
					t.Fatalf("%+v; want one send of the whole answer", as)
				}
				s.Reset()
			}
			encoded := func(kinds []kind, ws ...string) []byte {
				b, err := encode(kinds, ws)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			run(encoded(clientKinds, "Parse", `"a`, `"SELECT 1`, "Sync"), encoded(serverKinds, "ParseComplete", "ReadyForQuery"))
			sent, answer := encoded(clientKinds, c.sent...), encoded(serverKinds, c.answer...)
			if n := testing.AllocsPerRun(200, func() { run(sent, answer) }); n != 0 {
				t.Errorf("a sequence allocates %v times", n)
			}
		})
	}
}

// steady is an Env that allocates nothing: all statements read.
type steady struct {
	settings session.Settings
	keep     []byte
	parsings session.Parsings
}

func (e *steady) Settings() *session.Settings {
	e.settings = session.Settings{Values: override.Values{Mode: fence.Strict}, MaxText: 1 << 20, MaxStatements: 100}
	return &e.settings
}

func (e *steady) Verdict(*session.Session, []byte) (verdict.Verdict, bool) {
	return verdict.Verdict{Kind: verdict.Read, Fingerprint: 1}, true
}

func (e *steady) Parsings() *session.Parsings { return &e.parsings }

func (e *steady) Moment() time.Duration { return 1 }

func (e *steady) Beginnings() session.Beginnings {
	return session.Beginnings{Known: true, Isolation: settings.ReadCommitted}
}

func (e *steady) Current(verdict.Verdict) bool { return true }

func (e *steady) Keep(b []byte) []byte {
	e.keep = append(e.keep[:0], b...)
	return e.keep
}

func (e *steady) Drop([]byte) {}

func (e *steady) Token(*session.Session, lsn.Position) string { return "" }

func (e *steady) Serves(*session.Session, fence.Server) bool { return true }

func (e *steady) Unsuited(*session.Session, []byte) {}
