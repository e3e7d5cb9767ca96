package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// owner is the event loop in miniature: it gives a session what arrives, keeps
// what the session leaves unread, and performs actions in order. What every
// owner may rely on is checked at every step, whatever the test is about.
type owner struct {
	s          *session.Session
	settings   session.Settings
	beginnings session.Beginnings
	verdicts   map[string]verdict.Verdict

	// act performs an action; data is a copy of the action's.
	act func(a session.Action, data []byte)
	// fail reports a broken promise.
	fail func(format string, args ...any)

	lent         [2]bool
	serverUnread [2][]byte
	clientUnread []byte
	unsuited     func(text string)
	// flushed says that no verdict from before holds any more.
	flushed bool
	// serves is what it says of a replica that the session has read.
	serves bool
	kept   int // copies the session has not dropped
	closed bool
	// paused says that the client is not listened to: the server is slow to take what
	// it was sent.
	paused bool
	// done says that the client has closed its side.
	done bool
	// blind says that it is not looked at whether a record says all of a session.
	blind    bool
	parsings session.Parsings
	// moment is the machine's time.
	moment time.Duration
}

// move has the session go on as one made of its record. tamper may change what
// travels; lease gives the connection that comes along.
func (o *owner) move(tamper func(*handoff.Live), lease func(*handoff.Lease) *session.Grant) {
	held := [2]bool{o.s.Holds(0), o.s.Holds(1)}
	d := o.s.Depart()
	if d.Live != nil {
		for i := range d.Live.Leases {
			slot := session.PrimarySlot
			if d.Live.Leases[i].Replica {
				slot = session.ReplicaSlot
			}
			if !held[slot] || len(o.serverUnread[slot]) > 0 {
				o.fail("it leaves with a %s connection with %d bytes unread; it held it: %v", slot, len(o.serverUnread[slot]), held[slot])
			}
		}
	}
	o.perform()
	if o.s.Phase() != session.Departed || o.s.Reads() || o.kept != 0 {
		o.fail("after it has departed the session is %s, reads: %v, with %d copies", o.s.Phase(), o.s.Reads(), o.kept)
	}
	rec := *o.s.Record()
	rec.Live, rec.Unread = d.Live, append(d.Unread, o.clientUnread...)
	b, err := rec.Encode()
	if err != nil {
		o.fail("%v", err)
	}
	arrived, err := handoff.DecodeRecord(b)
	if err != nil {
		o.fail("%v in %s", err, b)
	}
	if arrived.Live != nil {
		if tamper != nil {
			tamper(arrived.Live)
		}
		if !o.blind {
			o.isTheSame(arrived, d)
		}
	}
	a := session.Arrival{Writer: d.Writer, Home: d.Home}
	if l := arrived.Live; l != nil && len(l.Leases) > 0 {
		a.Lease = lease(&l.Leases[0])
	}
	o.s, o.clientUnread = session.Arrive(arrived, o, a), arrived.Unread
	if arrived.Live != nil {
		o.tell(func() { o.s.Start(nil) })
	}
}

// isTheSame checks that a session made of what has arrived would leave as what has left.
func (o *owner) isTheSame(arrived *handoff.Record, d session.Departure) {
	a := session.Arrival{Writer: d.Writer, Home: d.Home}
	if ls := arrived.Live.Leases; len(ls) > 0 {
		g := &session.Grant{Statements: new(session.Statements), Settings: new(settings.Hash)}
		if ls[0].Replica {
			g.Slot = session.ReplicaSlot
		}
		g.Statements.Unpack(&ls[0])
		copy(g.Settings[:], ls[0].Settings)
		a.Lease = g
	}
	s := session.Arrive(arrived, o, a)
	s.Start(nil)
	s.Reset()
	if !s.Safe() {
		o.fail("a session that has arrived could not leave: %s", s.Phase())
		return
	}
	again := s.Depart()
	was, err := json.Marshal(d.Live)
	now, err2 := json.Marshal(again.Live)
	if err != nil || err2 != nil || !bytes.Equal(was, now) || again.Writer != d.Writer || again.Home != d.Home {
		o.fail("a session that left as\n%s\nwould leave as\n%s (%v %v)", was, now, err, err2)
	}
}

// record is a session as it comes from its login.
func record() *handoff.Record {
	return &handoff.Record{
		Session: "s-1", User: "app", Database: "app", Client: "unix", Protocol: 3 << 16,
		Cancel: handoff.CancelKey{PID: 7, Secret: []byte{1, 2, 3, 4}},
	}
}

func newOwner(rec *handoff.Record, fail func(string, ...any)) *owner {
	o := &owner{
		settings: session.Settings{Values: override.Values{Mode: fence.Strict}, MaxText: 1 << 10, MaxStatements: 4},
		serves:   true,
		moment:   time.Second,
		verdicts: map[string]verdict.Verdict{},
		act:      func(session.Action, []byte) {},
		fail:     fail,
	}
	o.s = session.New(rec, o)
	return o
}

// strict has reads fenced, or not.
func (o *owner) strict(on bool) {
	o.settings.Values.Mode = fence.Relaxed
	if on {
		o.settings.Values.Mode = fence.Strict
	}
}

func (o *owner) Settings() *session.Settings { return &o.settings }

func (o *owner) Verdict(_ *session.Session, text []byte) (verdict.Verdict, bool) {
	v, ok := o.verdicts[string(text)]
	return v, ok
}

func (o *owner) Parsings() *session.Parsings { return &o.parsings }

func (o *owner) Moment() time.Duration { return o.moment }

func (o *owner) Beginnings() session.Beginnings { return o.beginnings }

func (o *owner) Current(v verdict.Verdict) bool { return !v.Passing && !o.flushed }

func (o *owner) Token(_ *session.Session, at lsn.Position) string {
	return fence.Token{SystemID: 7, Position: at}.String()
}

func (o *owner) Serves(_ *session.Session, by fence.Server) bool { return o.serves && by.Backend == 1 }

func (o *owner) Unsuited(_ *session.Session, text []byte) {
	if o.unsuited != nil {
		o.unsuited(string(text))
	}
}

func (o *owner) Keep(b []byte) []byte {
	o.kept++
	return append([]byte(nil), b...)
}

// Drop also spoils the copy, so that a later use of it shows.
func (o *owner) Drop(b []byte) {
	o.kept--
	spoil(b)
}

func spoil(b []byte) {
	for i := range b {
		b[i] = 0xEE
	}
}

// client gives bytes of the client.
func (o *owner) client(b []byte) {
	o.clientUnread = append(o.clientUnread, b...)
	o.resume()
}

// resume gives what is unread for as long as the session makes use of it.
func (o *owner) resume() {
	for len(o.clientUnread) > 0 && o.s.Reads() && !o.paused {
		steps := o.s.Steps()
		given := append([]byte(nil), o.clientUnread...)
		used := o.s.FromClient(given)
		if used < 0 || used > len(given) {
			o.fail("FromClient used %d of %d bytes", used, len(given))
		}
		o.clientUnread = o.clientUnread[used:]
		o.perform()
		spoil(given) // nobody may look at it any longer
		if used == 0 && o.s.Steps() == steps {
			break
		}
	}
	if o.done && o.s.Reads() && !o.paused {
		o.s.ClientDone()
		o.perform()
	}
	o.check()
}

// server gives bytes of the connection in the slot.
func (o *owner) server(slot session.Slot, b []byte) {
	if !o.lent[slot] {
		o.fail("bytes of a connection that is not lent")
		return
	}
	given := append(o.serverUnread[slot], b...)
	used := o.s.FromServer(slot, given)
	if used < 0 || used > len(given) {
		o.fail("FromServer used %d of %d bytes", used, len(given))
	}
	o.serverUnread[slot] = append([]byte(nil), given[used:]...)
	o.perform()
	spoil(given)
	o.resume()
}

// tell calls a method that is told something else than bytes.
func (o *owner) tell(f func()) {
	f()
	o.perform()
	o.resume()
}

func (o *owner) granted(g *session.Grant) {
	o.lent[g.Slot] = true
	o.tell(func() { o.s.Granted(g) })
}

func (o *owner) lost(slot session.Slot) {
	o.tell(func() { o.s.ServerLost(slot) })
}

func (o *owner) settled(mark uint64, at fence.Probe) (sure bool) {
	o.tell(func() { sure = o.s.Settled(mark, at) })
	return sure
}

// perform performs what there is to do, and what that leads to.
func (o *owner) perform() {
	for i := 0; i < len(o.s.Actions()); i++ {
		a := o.s.Actions()[i]
		if o.closed {
			o.fail("%s after close", a.Op)
			break
		}
		data := append([]byte(nil), a.Data...)
		switch a.Op {
		case session.OpToServer:
			if !o.lent[a.Slot] {
				o.fail("bytes for the %s connection, which is not lent", a.Slot)
			}
		case session.OpRelease:
			if !o.lent[a.Slot] {
				o.fail("the %s connection is released, but not lent", a.Slot)
			}
			if len(o.serverUnread[a.Slot]) > 0 {
				a.How = session.Broken // what the session has not used is the loop's to notice
			}
		case session.OpClose:
			o.closed = true
		}
		o.act(a, data)
		if a.Op == session.OpRelease {
			o.lent[a.Slot] = false
			o.serverUnread[a.Slot] = nil
		}
	}
	o.s.Reset()
}

// check looks at what must be true between two events.
func (o *owner) check() {
	p := o.s.Phase()
	if o.closed != (p == session.Closed) || p == session.Departed {
		o.fail("phase %s, closed %v", p, o.closed)
	}
	for slot := range session.Slot(2) {
		if o.s.Holds(slot) != o.lent[slot] {
			o.fail("the session holds its %s connection: %v; it was lent: %v", slot, o.s.Holds(slot), o.lent[slot])
		}
	}
	if (p == session.Granted || p == session.Applying || p == session.Busy) && !o.lent[o.s.Slot()] {
		o.fail("%s without a connection", p)
	}
	if o.kept < 0 || o.kept > 1 || o.kept > 0 && p != session.Busy && p != session.Queued && p != session.Settling && p != session.Applying {
		o.fail("%d copies kept while %s", o.kept, p)
	}
}

// promise is a broken promise, for tests that go on by panicking out of a step.
type promise string

func broken(format string, args ...any) { panic(promise(fmt.Sprintf(format, args...))) }
