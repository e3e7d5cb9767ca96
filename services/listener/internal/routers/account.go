package routers

import (
	"context"
	"time"

	"github.com/pgpilot/pgpilot/libs/handoff"
)

// Who has which session is heard from each router in the order in which it came about,
// but from two routers in any order, and what happens at another listener is not heard
// at all. So a session's place is given back when nobody has it any more, as far as is
// known here, never because one of them has let it go.

// awayTime is for how long a session counts that has gone to another listener. It is no
// longer there than it may be parked; then it is a router's, or has ended.
const awayTime = parkTime + 5*time.Second

// join takes a router up, with the sessions that it has.
func (f *Fleet) join(l *link, sessions []string) {
	f.state.Lock()
	defer f.state.Unlock()
	for _, id := range sessions {
		f.beginLocked(l, id)
	}
	f.state.links[l] = struct{}{}
	close(f.state.joined)
	f.state.joined = make(chan struct{})
	f.signalLocked()
}

// leave forgets a router with the sessions it had, and gives those that were on
// their way back to their hand-overs. Cancel requests do not wait for it any longer.
func (f *Fleet) leave(l *link) {
	f.state.Lock()
	defer f.state.Unlock()
	delete(f.state.links, l)
	for id := range l.sessions {
		f.closeLocked(id)
	}
	for id, answer := range l.pending {
		answer <- lost
		delete(l.pending, id)
	}
	for n, c := range l.cancels {
		c.answered(false)
		delete(l.cancels, n)
	}
	f.signalLocked()
}

// beginLocked notes that a router has a session.
func (f *Fleet) beginLocked(l *link, id string) {
	l.sessions[id] = struct{}{}
	delete(f.state.away, id)
	f.state.moves++
	f.book.Adopt(id)
}

// hasLocked reports whether the session is somebody's: a router's, on its way to one, or
// parked here.
func (f *Fleet) hasLocked(id string) bool {
	if f.state.parked[id] != nil {
		return true
	}
	for l := range f.state.links {
		if _, ok := l.sessions[id]; ok || l.pending[id] != nil {
			return true
		}
	}
	return false
}

// closeLocked gives a session's place back, unless somebody has it.
func (f *Fleet) closeLocked(id string) {
	if f.hasLocked(id) {
		return
	}
	delete(f.state.away, id)
	f.book.Close(id)
}

// settle ends an offer to a router. A session that it has taken is parked no longer.
func (f *Fleet) settle(l *link, id string, a answer) {
	f.state.Lock()
	defer f.state.Unlock()
	ch, ok := l.pending[id]
	if !ok {
		return // it has ended already
	}
	delete(l.pending, id)
	if a == acknowledged {
		f.beginLocked(l, id)
		if p := f.state.parked[id]; p != nil {
			f.dropLocked(p)
		}
	}
	ch <- a
	f.signalLocked()
}

// end forgets sessions, whoever had them last as far as is known here. One that ended
// before its acknowledgement came was taken all the same: the client may have been served
// and gone by then.
func (f *Fleet) end(l *link, sessions []string) {
	f.state.Lock()
	defer f.state.Unlock()
	for _, id := range sessions {
		if ch, ok := l.pending[id]; ok {
			delete(l.pending, id)
			if p := f.state.parked[id]; p != nil {
				f.dropLocked(p)
			}
			ch <- acknowledged
			f.signalLocked()
		} else if _, ok := l.sessions[id]; !ok {
			continue
		}
		for other := range f.state.links {
			delete(other.sessions, id) // it has not been heard yet that it was given away there
		}
		delete(l.sessions, id)
		f.closeLocked(id)
	}
}

// note follows sessions that come to a router, or leave it, by another way than this
// listener. One that has left and that nobody is known to have is another listener's.
func (f *Fleet) note(l *link, what handoff.Type, sessions []string) {
	f.state.Lock()
	defer f.state.Unlock()
	for _, id := range sessions {
		if what == handoff.TypeBegan {
			f.beginLocked(l, id)
			continue
		}
		if _, ok := l.sessions[id]; !ok {
			continue
		}
		delete(l.sessions, id)
		f.state.moves++
		if !f.hasLocked(id) {
			f.state.away[id] = time.Now().Add(awayTime)
		}
	}
}

// Gone forgets sessions that have ended at another listener.
func (f *Fleet) Gone(sessions []string) {
	f.state.Lock()
	defer f.state.Unlock()
	for _, id := range sessions {
		if _, ok := f.state.away[id]; ok {
			f.closeLocked(id)
		}
	}
}

// forgetAway forgets, until ctx ends, the sessions of which nothing is heard any more
// after they have gone to another listener: that has ended with them.
func (f *Fleet) forgetAway(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.expire(now)
		}
	}
}

func (f *Fleet) expire(now time.Time) {
	f.state.Lock()
	defer f.state.Unlock()
	for id, until := range f.state.away {
		if now.After(until) {
			f.closeLocked(id)
		}
	}
}
