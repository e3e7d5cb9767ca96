package routers

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

// newer makes of a record one of the next version, with fields that this one lacks.
func newer(payload []byte) []byte {
	n := binary.BigEndian.Uint32(payload)
	js := string(payload[4 : 4+n])
	js = strings.Replace(js, fmt.Sprintf(`"v":%d`, handoff.RecordVersion), fmt.Sprintf(`"v":%d,"later":{"a":[1.50,"<\u00e9>"]}`, handoff.RecordVersion+1), 1)
	js = strings.Replace(js, `"live":{`, `"live":{"status":"of a later version","later":"<é>",`, 1)
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(js))), js...), payload[4+n:]...)
}

// What a router of a later release has written goes through as it is, to another one of
// that release, or back to where it has come from if nobody else understands it.
func TestRecordsOfALaterVersionTravel(t *testing.T) {
	s := newStage(t)
	a, old, b := s.router("a", "x"), s.router("b"), s.router("c", "y")
	var sent []byte
	a.change = func(payload []byte) []byte {
		sent = newer(payload)
		return sent
	}
	a.gives("x", handoff.TypeAck, nil)
	m := old.expect(handoff.TypeSession)
	handoff.CloseFDs(m.FDs)
	if rec, err := handoff.DecodeRecord(m.Body); err == nil || rec == nil || rec.Session != "x" {
		t.Fatalf("%+v, %v: it is not of a later version", rec, err)
	}
	old.refuse(m)
	m = b.expect(handoff.TypeSession)
	if !bytes.Equal(m.Body, sent) || len(m.FDs) != 2 {
		t.Errorf("%q arrives with %d descriptors; sent was %q", m.Body, len(m.FDs), sent)
	}
	handoff.CloseFDs(m.FDs)
	b.refuse(m)
	m = a.expect(handoff.TypeSession)
	if !bytes.Equal(m.Body, sent) {
		t.Errorf("%q comes back; sent was %q", m.Body, sent)
	}
	handoff.CloseFDs(m.FDs)
	a.ack(m)
	s.counts("x", "y")
}

// A cancel request for what such a record brings along is marked in it, and nothing else is
// changed.
func TestACancelRequestInARecordOfALaterVersion(t *testing.T) {
	s := newStage(t)
	a := s.router("a", "x")
	a.stops()
	var sent []byte
	a.change = func(payload []byte) []byte {
		sent = newer(payload)
		return sent
	}
	a.gives("x", handoff.TypeAck, nil)
	s.Cancel(t.Context(), key, func(bool) {})
	b := s.router("b")
	m := b.expect(handoff.TypeSession)
	handoff.CloseFDs(m.FDs)
	b.ack(m)
	got, want := fields(t, m.Body), fields(t, sent)
	want["live"].(map[string]any)["canceled"] = true
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v arrives, want %v", got, want)
	}
}

// message gives a message as it is sent.
func message(typ handoff.Type, body string) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(1+len(body))), byte(typ)), body...)
}

// A router that cannot be answered for one session keeps that, and those that it has
// acknowledged: they are not taken for lost, so that nobody else gets them.
func TestOneOfSeveralInFlightCannotBeAnswered(t *testing.T) {
	s := newStage(t)
	a, b := s.router("a", "x", "y"), s.router("b", "z")
	a.stops()
	a.gives("x", handoff.TypeAck, nil)
	handoff.CloseFDs(b.expect(handoff.TypeSession).FDs)
	a.gives("y", handoff.TypeAck, nil)
	handoff.CloseFDs(b.expect(handoff.TypeSession).FDs)
	// All at once, so that the acknowledgement is there when the listener finds out.
	said := slices.Concat(message(handoff.TypeSession, "no record, of z perhaps"), message(handoff.TypeAck, `{"session":"x"}`))
	if _, err := b.raw.Write(said); err != nil {
		t.Fatal(err)
	}
	b.Close()
	s.await("the other one looks for a router again", func() bool {
		return testutil.ToFloat64(s.metrics.handovers.WithLabelValues(string(lost))) == 1
	})
	if n := testutil.ToFloat64(s.metrics.handovers.WithLabelValues(string(acknowledged))); n != 1 {
		t.Errorf("%v sessions count as acknowledged, want the one that is", n)
	}
	b.die()
	c := s.router("c")
	m := c.expect(handoff.TypeSession)
	defer handoff.CloseFDs(m.FDs)
	if p, err := handoff.OpenParcel(m.Body); err != nil || p.Session != "y" {
		t.Errorf("%+v, %v is offered to another router", p, err)
	}
	c.ack(m)
	s.counts("y")
}

// Sessions that no router takes do not keep those away that one would.
func TestSessionsThatNobodyTakesMakeRoom(t *testing.T) {
	s := newStage(t)
	a := s.router("a")
	a.stops()
	for i := range window {
		a.gives(fmt.Sprint("bad", i), handoff.TypeAck, nil)
	}
	b := s.router("b")
	refused := map[string]bool{}
	for len(refused) < window {
		m := b.expect(handoff.TypeSession)
		handoff.CloseFDs(m.FDs)
		refused[b.refuse(m)] = true
	}
	a.gives("good", handoff.TypeAck, nil)
	for {
		m := b.expect(handoff.TypeSession)
		handoff.CloseFDs(m.FDs)
		p, err := handoff.OpenParcel(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		if p.Session == "good" {
			b.ack(m)
			break
		}
		b.refuse(m)
	}
	s.await("the router has it", func() bool { return slices.Contains(s.sessionsOf("b"), "good") })
}

// A session that no router takes goes to the next one that comes at once, and is offered
// again to those that have refused it.
func TestRefusedSessionsAreOfferedAgain(t *testing.T) {
	s := newStage(t)
	a := s.router("a")
	a.stops()
	a.gives("x", handoff.TypeAck, nil)
	b := s.router("b")
	for range 2 {
		m := b.expect(handoff.TypeSession)
		handoff.CloseFDs(m.FDs)
		b.refuse(m)
	}
	c := s.router("c")
	m := c.expect(handoff.TypeSession)
	handoff.CloseFDs(m.FDs)
	c.ack(m)
	s.await("the router has it", func() bool { return slices.Contains(s.sessionsOf("c"), "x") })
}

// Who does not wait any longer for a router's answer does not take the connection from the
// others that are on their way over it.
func TestImpatienceLeavesTheConnection(t *testing.T) {
	s := newStage(t)
	b := s.router("b")
	client, far := handofftest.Ends(t)
	defer unix.Close(far)
	ctx, impatient := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	result := map[string]error{}
	var mu sync.Mutex
	for _, id := range []string{"hasty", "calm"} {
		ctx := ctx
		if id == "calm" {
			ctx = t.Context()
		}
		wg.Go(func() {
			err := s.HandOver(ctx, &handoff.Record{Session: id, User: "u", Database: "d"}, client)
			mu.Lock()
			defer mu.Unlock()
			result[id] = err
		})
	}
	offered := []*handoff.Message{b.expect(handoff.TypeSession), b.expect(handoff.TypeSession)}
	impatient()
	for _, m := range offered {
		handoff.CloseFDs(m.FDs)
		b.ack(m)
	}
	wg.Wait()
	for id, err := range result {
		if err != nil {
			t.Errorf("%s: %v, though the router has taken it", id, err)
		}
	}
	if n := testutil.ToFloat64(s.metrics.handovers.WithLabelValues(string(acknowledged))); n != 2 {
		t.Errorf("%v sessions count as acknowledged", n)
	}
}

// A listener that stops does not wait for a router that hangs: another listener gets the
// session.
func TestRoutersThatHangAreNotWaitedForInTheEnd(t *testing.T) {
	s := newStage(t)
	s.silence = 10 * patience
	talks := s.relative("2")
	a, b := s.router("a", "x"), s.router("b")
	a.stops()
	a.gives("x", handoff.TypeAck, nil)
	m := b.expect(handoff.TypeSession)
	handoff.CloseFDs(m.FDs)
	s.Refuse()
	offer := s.next(talks, handoff.TypeSession)
	if err := b.Send(handoff.TypeAck, handoff.SessionRef{Session: "x"}); err == nil {
		t.Error("the router can still take the session")
	}
	offer.answer(handoff.TypeAck)
	s.Empty(t.Context())
}
