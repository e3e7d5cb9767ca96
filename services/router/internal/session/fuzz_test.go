package session_test

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// FuzzSession plays any events in any order, with bytes of any kind from both
// sides: nothing may panic, what the client gets is whole messages, and there are
// never more ReadyForQuery among them than requests.
func FuzzSession(f *testing.F) {
	f.Add([]byte{1, 0, 8, 2, 5, 1, 4, 3, 5, 4, 3, 6, 4, 3, 7, 4, 3, 0, 4})
	f.Add([]byte{1, 1, 1, 2, 1, 4, 1, 6, 5, 0, 3, 10, 3, 11, 3, 15, 1, 9, 1, 10, 1, 6, 3, 7, 3, 0})
	f.Add([]byte{14, 1, 0, 3, 8, 5, 1, 3, 1, 7, 1, 8, 5, 1, 9, 10, 11, 12, 13})
	f.Add([]byte{0, 7, 'Q', 0, 0, 0, 6, 'x', 0, 8, 0, 5, 0, 2, 6, 'Z', 0, 0, 0, 5, 'I'})
	f.Add([]byte{15, 0, 15, 1, 1, 6, 5, 3, 10, 3, 11, 4, 0, 15, 2, 15, 3, 15, 4, 1, 6, 8, 0, 5, 3, 10, 3, 14, 3, 13, 4, 0})
	f.Add([]byte{8, 0, 15, 0, 15, 5, 1, 6, 15, 6, 15, 2, 1, 4, 1, 6, 5, 3, 1, 4, 0, 3, 10, 4, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		o := newOwner(record(), t.Fatalf)
		var sent, got []byte
		queued := false
		var lend session.Slot
		accounts, params := [2]session.Statements{}, [2]settings.Hash{}
		o.act = func(a session.Action, data []byte) {
			switch a.Op {
			case session.OpToClient:
				got = append(got, data...)
			case session.OpAcquire:
				queued, lend = true, session.PrimarySlot
				if a.Request.Read {
					lend = session.ReplicaSlot
				}
			case session.OpWithdraw:
				queued = false
			}
		}
		o.tell(func() { o.s.Start([]handoff.Parameter{}) })
		marks := uint64(0)
		next := func() byte {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return b
		}
		some := func() []byte {
			n := min(int(next()), len(script))
			b := script[:n]
			script = script[n:]
			return b
		}
		at := func() session.Slot {
			if o.lent[session.ReplicaSlot] {
				return session.ReplicaSlot
			}
			return session.PrimarySlot
		}
		for len(script) > 0 && !o.closed {
			switch next() % 16 {
			case 0:
				b := some()
				sent = append(sent, b...)
				o.client(b)
			case 1:
				k := clientKinds[int(next())%len(clientKinds)]
				b := message(k.typ, k.body)
				sent = append(sent, b...)
				o.client(b)
			case 2:
				if b := some(); o.lent[at()] {
					o.server(at(), b)
				}
			case 3:
				if k := serverKinds[int(next())%len(serverKinds)]; o.lent[at()] {
					o.server(at(), message(k.typ, k.body))
				}
			case 4:
				if o.lent[at()] {
					o.server(at(), message(wire.ReadyForQuery, string("ITE"[next()%3])))
				}
			case 5:
				if slot := lend * session.Slot(next()%4/3); queued {
					queued = false
					o.granted(&session.Grant{Slot: slot, Backend: int(slot), Server: fence.Server{Backend: int(slot), Run: 1}, Statements: &accounts[slot], Settings: &params[slot]})
				}
			case 6:
				if queued {
					queued = false
					o.tell(func() { o.s.Refuse(&session.Problem{Code: "57P03", Message: "no"}) })
				}
			case 7:
				if o.lent[at()] {
					o.lost(at())
				}
			case 8:
				v := verdict.Verdict{Kind: verdict.Kind(next() % 2), Fingerprint: 1}
				if v.Kind == verdict.Write {
					v.Effects = verdict.Effect(next() % 8)
				}
				o.tell(func() { o.s.Judged(v) })
			case 9:
				o.tell(o.s.Cancel)
			case 10:
				if next() == 0 {
					o.tell(o.s.Stop)
				}
			case 11:
				if next() == 0 {
					o.tell(o.s.Kill)
				}
			case 12:
				marks++
				o.settled(marks, fence.Probe{Position: lsn.Position{Timeline: 1, LSN: lsn.LSN(marks)}})
			case 13:
				o.tell(o.s.FenceReady)
			case 14:
				o.settings.PerSession = next()%2 == 0
				o.settings.Values.Mode = fence.Mode(next() % 5)
				o.serves = next()%2 == 0
			case 15:
				named := [][]string{
					{"Parse", `"a`, `"SELECT 1`}, {"Parse", `"b`, `"SELECT 2`}, {"Bind", `"a`}, {"Bind", `"b`}, {"Describe", `"Sa`}, {"Close", `"Sa`},
					{"Parse", `"DEALLOCATE a`}, {"Parse", `"DEALLOCATE ALL`}, {"Query", `"DISCARD ALL`}, {"Query", `"DEALLOCATE b`}, {"Describe", `"P`},
				}
				b, err := encode(clientKinds, named[int(next())%len(named)])
				if err != nil {
					t.Fatal(err)
				}
				sent = append(sent, b...)
				o.client(b)
			}
			o.check()
		}
		ready := 0
		for len(got) > 0 {
			typ, total, err := wire.Header(got)
			if err != nil {
				t.Fatalf("the client gets %q: %v", got, err)
			}
			if total == 0 || total > len(got) {
				break
			}
			if typ == wire.ReadyForQuery {
				ready++
			}
			got = got[total:]
		}
		for len(sent) > 0 {
			typ, total, err := wire.Header(sent)
			if err != nil || total == 0 {
				break
			}
			if typ == wire.Query || typ == wire.FunctionCall || typ == wire.Sync {
				ready--
			}
			sent = sent[min(total, len(sent)):]
		}
		if ready > 1 { // the greeting's
			t.Fatalf("%d ReadyForQuery too many", ready-1)
		}
	})
}
