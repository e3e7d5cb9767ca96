package intake

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/handoff/handofftest"
)

// A session for whose descriptors there is no room here stays its listener's, as do the
// connection and the sessions that came before.
func TestSessionsWithoutRoom(t *testing.T) {
	st := newStage(t)
	l, _ := st.connect(t)
	l.session("s1", 1)
	var ref handoff.SessionRef
	l.expect(handoff.TypeAck, &ref)
	st.await(t, "the first is owned", func() bool { return slices.Equal(st.owned, []string{"s1"}) })
	_, far := handofftest.Ends(t)
	defer unix.Close(far)
	rec := &handoff.Record{Session: "s2", User: "u", Database: "d"}
	restore := handofftest.Exhaust(t, 0)
	if err := l.SendSession(rec, far); err != nil {
		t.Fatal(err)
	}
	l.expect(handoff.TypeRefuse, &ref)
	restore()
	if ref.Session != "s2" || ref.Reason != handoff.ErrLost.Error() {
		t.Errorf("refused %+v", ref)
	}
	l.session("s3", 1)
	if l.expect(handoff.TypeAck, &ref); ref.Session != "s3" {
		t.Errorf("acknowledged %+v", ref)
	}
}

// An offer for which too much is on its way is one nobody took, and the link is as good as
// before.
func TestOfferWhenTooMuchIsOnItsWay(t *testing.T) {
	st := newStage(t)
	l := st.parker(t)
	way := st.s.Way()
	t.Run("crowded", func(t *testing.T) {
		release := handofftest.Crowd(t)
		defer release()
		outcomes := make(chan Outcome, 1)
		o := &offer{rec: &handoff.Record{Session: "s1", User: "u", Database: "d", Live: &handoff.Live{}}, fds: []int{0}, done: func(o Outcome) { outcomes <- o }}
		if err := way.sendOffer(o); err != nil { // on this thread, which has no privileges
			t.Fatal(err)
		}
		if got := <-outcomes; got != Kept {
			t.Errorf("outcome %d, want %d", got, Kept)
		}
	})
	if st.s.Way() != way {
		t.Fatal("the listener is not asked any more")
	}
	g := st.offer(t, "s2")
	handoff.CloseFDs(l.receiveSession().FDs)
	if err := l.Send(handoff.TypeAck, handoff.SessionRef{Session: "s2"}); err != nil {
		t.Fatal(err)
	}
	g.ends(t, Taken)
}
