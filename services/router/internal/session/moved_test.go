package session_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// TestMovedLikeADirectConnection is TestLikeADirectConnection with a session that goes
// from router to router in between: its client must not be able to tell.
func TestMovedLikeADirectConnection(t *testing.T) {
	moved := 0
	for n := range *seeds {
		seed(t, *from+n, func(r *rand.Rand) { moved += likeDirect(r, true, false, nil) })
		if t.Failed() {
			return
		}
	}
	if uint64(moved) < *seeds {
		t.Errorf("the sessions of %d courses have moved %d times", *seeds, moved)
	}
}

// unseen are the fields of a record without which the model's client sees nothing that
// is wrong, and why that is. That they travel shows in what a session would leave as
// that has just arrived.
var unseen = map[string]string{
	"Live.LastRoute": shown, "Route.Backend": shown, "Route.Role": shown, "Route.Reason": shown, "Route.Fence": shown, "Route.Replay": shown, "Route.WaitedMicros": shown,
	"Prepared.Kind": judged, "Prepared.Effects": judged, "Prepared.Fingerprint": judged, "Prepared.Followed": judged,
	"Prepared.Params":      "the model's parameters have one type",
	"Prepared.Environment": "the statement is parsed once more than it had to be",
	"Prepared.Current":     "the statement is parsed once more than it had to be",
	"Live.Written":         "COMMIT counts as a write, too",
	"Live.Lost":            "the session is pinned then",
	"Live.Epoch":           "it is only part of names on servers",
	"Command.Name":         "the session is pinned when it goes back to a savepoint that is not known",
	"Level.Savepoint":      "the session is pinned when it goes back to a savepoint that is not known",
	"Block.IdleMicros":     "the model has no clock",
	"Named.Content":        "it is prepared once more",
	"Held.Stale":           "the server refuses once more", "Held.Params": described, "Held.Rows": described, "Lease.Unnamed": "it is parsed once more",
}

const (
	shown     = "it is for SHOW pgpilot.last_route"
	judged    = "the verdict is asked for again"
	described = "the server is asked once more"
)

// others are the fields that a session knows nothing of, which its owner fills in, and
// those of sessions that read nothing twice (fencing.mode causal) or hold a replica.
var others = map[string]bool{
	"Live.Greeting": true, "Live.Canceled": true, "Live.Leaving": true, "Live.WaitedMicros": true, "Fence.Backend": true, "Fence.Writer": true,
	"Fence.Seen": true, "Seen.Backend": true, "Seen.Server": true, "Seen.Timeline": true, "Seen.Unsettled": true,
	"Lease.Idle": true, "Lease.Backend": true, "Lease.Address": true, "Lease.Run": true, "Lease.PID": true, "Lease.Secret": true,
	"Lease.Parameters": true, "Lease.Reported": true, "Lease.AgeMicros": true, "Lease.Replica": true, "Lease.Spare": true, "Lease.Begins": true, "Lease.Stored": true, "Lease.Given": true, "Lease.Standby": true, "Lease.Generation": true, "Lease.Soiled": true,
	"Begins.IdleInTransaction": true, "Begins.Transaction": true, "Begins.Isolation": true, "Begins.SearchPath": true,
	"Live.Skipping":    true, // TestSkippingTravels
	"Fence.Aside":      true, // TestWhatWasReadAsideTravels
	"Block.Timeline":   true, // TestABlockRemembersWhatItHasSeen
	"Fence.Given":      true, // TestTokensTravel
	"Live.Warned":      true, // TestHintsTravel
	"Lease.Indelible":  true, // TestWhatNoResetRemovesTravels
	"Prepared.Passing": true, // TestWhatIsPreparedForAWhileTravels
	"Portal.Depth":     true, // TestPortalsTravelWithTheirSavepoints
}

// TestEveryFieldOfTheRecordMatters drops each field of the record in turn: something
// must break.
func TestEveryFieldOfTheRecordMatters(t *testing.T) {
	for _, f := range fieldsOf(reflect.TypeOf(handoff.Live{}), map[reflect.Type]bool{}) {
		name := f.of.Name() + "." + f.of.Field(f.at).Name
		if others[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			_, hidden := unseen[name]
			n, found := breaks(!hidden, func(l *handoff.Live) { f.drop(reflect.ValueOf(l).Elem()) })
			if !found {
				t.Errorf("nothing is wrong in %d courses without it", 10**seeds)
			}
			t.Logf("seed %d", n)
		})
	}
}

// breaks looks for a course in which a promise is broken.
func breaks(blind bool, tamper func(*handoff.Live)) (n uint64, found bool) {
	for n = range 10 * *seeds {
		func() {
			defer func() {
				if e := recover(); e != nil {
					found = true // a panic of the session's own is as bad
				}
			}()
			likeDirect(rand.New(rand.NewPCG(n, 1)), true, blind, tamper)
		}()
		if found {
			break
		}
	}
	return n, found
}

// field is one of a struct that is part of a record.
type field struct {
	of reflect.Type
	at int
}

// fieldsOf lists the fields of a struct and of those in it.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool) (out []field) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fieldsOf(t.Elem(), seen)
	case reflect.Struct:
		if seen[t] || t.PkgPath() != reflect.TypeOf(handoff.Live{}).PkgPath() {
			return nil
		}
		seen[t] = true
		for i := range t.NumField() {
			out = append(out, field{t, i})
			out = append(out, fieldsOf(t.Field(i).Type, seen)...)
		}
	}
	return out
}

// drop clears the field wherever it is in v.
func (f field) drop(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.drop(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.drop(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == f.of {
			v.Field(f.at).SetZero()
		}
		for i := range v.NumField() {
			f.drop(v.Field(i))
		}
	}
}

// TestSkippingTravels moves a session that ignores what its client sends up to a Sync.
func TestSkippingTravels(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		"start server_version=15.4", `known "INSERT" write`, `client Parse "" "INSERT" Bind Execute`, "granted primary", "lost primary",
	} {
		p.event(e)
	}
	if got := p.o.s.Phase(); got != session.Skipping {
		t.Fatalf("%s, want a session that skips", got)
	}
	p.o.move(nil, nil)
	if got := strings.Join(p.event(`client Bind Execute Sync`), "\n"); got != "client< ReadyForQuery I\n= idle, fence dirty" {
		t.Errorf("its client gets\n%s", got)
	}
}

// TestWhatNoResetRemovesTravels has a session move that has left something in its connection
// which DISCARD ALL does not remove: elsewhere, too, nobody gets that connection.
func TestWhatNoResetRemovesTravels(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		"start server_version=15.10", `known "LOAD" write session indelible`, `client Query "LOAD"`, "granted primary", `primary CommandComplete "LOAD" ReadyForQuery`,
	} {
		p.event(e)
	}
	p.o.move(nil, func(l *handoff.Lease) *session.Grant {
		g := &session.Grant{Statements: new(session.Statements), Settings: new(settings.Hash)}
		g.Statements.Unpack(l)
		return g
	})
	if got := strings.Join(p.event("client Terminate"), "\n"); got != "release primary broken\nclose\n= closed, fence dirty" {
		t.Errorf("with its end\n%s", got)
	}
}

// TestWhatIsPreparedForAWhileTravels has a session move that has had to prepare a statement anew
// behind a SET LOCAL that is not followed: once that is rolled back it is prepared anew again.
func TestWhatIsPreparedForAWhileTravels(t *testing.T) {
	p := newPlay(t, 0)
	for _, e := range []string{
		"set strict=off", "start server_version=15.4", `known "BEGIN" write transaction`, `known "INSERT" write`,
		`known "SAVEPOINT a" write transaction`, `known "ROLLBACK TO a" write transaction`, `known "SET LOCAL search_path TO\n b" write session locals=search_path`,
		`client Parse "s" "INSERT" Sync`, "granted primary conn=1", "primary ParseComplete ReadyForQuery",
		`client Query "BEGIN"`, "granted primary conn=2", `primary CommandComplete "BEGIN" ReadyForQuery T`,
		`client Query "SAVEPOINT a"`, `primary CommandComplete "SAVEPOINT" ReadyForQuery T`,
		`client Query "SET LOCAL search_path TO\n b"`, `primary CommandComplete "SET" ReadyForQuery T`,
		`client Bind "" "s" Execute Sync`, "primary ParseComplete ParameterDescription NoData", `primary BindComplete CommandComplete "INSERT 0 1" ReadyForQuery T`,
	} {
		p.event(e)
	}
	p.o.move(nil, func(l *handoff.Lease) *session.Grant {
		g := &session.Grant{Statements: new(session.Statements), Settings: new(settings.Hash)}
		g.Statements.Unpack(l)
		return g
	})
	p.event(`client Query "ROLLBACK TO a"`)
	p.event(`primary CommandComplete "ROLLBACK" ReadyForQuery T`)
	if got := strings.Join(p.event(`client Bind "" "s" Execute Sync`), "\n"); !strings.Contains(got, "Parse") {
		t.Errorf("behind the rollback\n%s", got)
	}
}

// TestUnsafe looks at moments in which a session must stay where it is.
func TestUnsafe(t *testing.T) {
	for name, events := range map[string][]string{
		"a statement runs":                {`client Query "INSERT"`, "granted primary"},
		"half an answer has come":         {`client Query "INSERT"`, "granted primary", `primary first=7 CommandComplete "INSERT 0 1"`},
		"a sequence is open":              {`client Parse "" "INSERT" Flush`, "granted primary", `primary ParseComplete`},
		"data is copied in":               {`client Query "INSERT"`, "granted primary", `primary CopyInResponse`},
		"half a message has been sent":    {`set max-text=10`, `client first=12 Query "INSERT INTO t VALUES"`, "granted primary"},
		"settings are being applied":      {`known "SET a TO b" write session`, `client Query "SET a TO b"`, "granted primary", `primary CommandComplete "SET" ReadyForQuery`, `client Query "INSERT"`, "granted primary conn=2"},
		"the statement has been refused":  {`client first=6 Query "INSERT"`, `client rest`},
		"it is a replication connection":  nil,
		"the session has ended":           {"client Terminate"},
		"a verdict within a sequence":     {`client Parse "" "INSERT"`, "granted primary", `client Parse "x" "unknown"`},
		"what a failed copy left is open": {`client Parse "" "INSERT" Bind Execute Sync`, "granted primary", `primary ParseComplete BindComplete CopyInResponse`, `client CopyFail "no"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, 0)
			all := append([]string{"start server_version=15.4", `known "INSERT" write`, `known "INSERT INTO t VALUES" write`}, events...)
			if events == nil {
				all = []string{"replication on", "start", "granted primary"}
			}
			for _, e := range all {
				p.event(e)
			}
			if name == "the statement has been refused" {
				p.o.s.Refuse(&session.Problem{Code: "57P03"})
			}
			if p.o.s.Safe() {
				t.Errorf("it could leave while %s", p.o.s.Phase())
			}
		})
	}
}
