package session

import (
	"time"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/route"
)

// mode is the fencing mode that holds for the next statement.
func (s *Session) mode() fence.Mode { return s.values().Mode }

// freshest gives how old reads may be, 0 if that does not matter: what is asked for
// counts in every mode, what is configured in the mode bounded.
func (s *Session) freshest(v override.Values) time.Duration {
	if v.Freshness > 0 || v.Mode != fence.Bounded {
		return v.Freshness
	}
	return s.env.Settings().Bound
}

// read asks for a connection for a read, once what it has to see is known.
func (s *Session) read() {
	if s.onlyPrimary() {
		s.acquire(route.Request{Reason: route.ReasonSettings})
		return
	}
	if s.admits() {
		return
	}
	v := s.wanted()
	if v.Route == override.Primary {
		reason := route.ReasonOverride
		if s.hint != nil && s.hint.set.Routed() {
			reason = route.ReasonHint
		}
		s.acquire(route.Request{Reason: reason})
		return
	}
	mode := v.Mode
	if mode == fence.Linear {
		s.fence.Arrived()
	}
	switch home, bound := s.fence.Bound(); {
	case s.fence.Settled(mode):
		s.acquire(route.Request{Read: true})
		return
	case mode == fence.Causal && bound && !s.fence.Dirty() && !s.tried.Has(home.Backend) && s.env.Serves(s, home):
		// What it has seen there is there.
		s.acquire(route.Request{Read: true, Only: route.Set(0).With(home.Backend), Run: home.Run})
		return
	}
	if mode.Remembers() {
		s.settle()
	}
	s.do(Action{Op: OpAwaitFence})
	s.enter(Settling)
}

// settle has a probe that starts from now on settle everything so far.
func (s *Session) settle() { s.do(Action{Op: OpSettle, Mark: s.fence.Mark()}) }

// Settling reports whether the read at the head waits for a fence that is not settled
// yet.
func (s *Session) Settling() bool {
	mode := s.mode()
	if s.token.own != nil {
		mode = fence.Linear // a token stands for everything
	}
	return s.phase == Settling && !s.fence.Settled(mode)
}

// FenceReady says that the fence has been settled or is not going to be in time;
// in the latter case the read goes to the primary.
func (s *Session) FenceReady() {
	if s.phase != Settling {
		return
	}
	if s.token.own != nil {
		if !s.fence.Settled(fence.Linear) {
			s.tokenCame(&tokenUnknown)
			return
		}
		s.tokenCame(nil)
		return
	}
	if !s.fence.Settled(s.mode()) {
		s.acquire(route.Request{Reason: route.ReasonFenceFallback})
		return
	}
	s.acquire(route.Request{Read: true})
}

// Settled gives the position that a probe has read, on the given server, after
// OpSettle with the mark. It reports false if a write up to the mark may be lost, or
// what was read before it.
func (s *Session) Settled(mark uint64, at fence.Probe) bool {
	return s.fence.Settle(mark, at.Position, at.Server)
}

// saw notes that an answer has ended, or will not go on, that h has given. It reports
// whether what it showed is to be settled.
func (s *Session) saw(slot Slot, h *held) bool {
	mode := s.mode()
	if !mode.Remembers() { // what ends may have begun in another one
		mode = s.asked.Mode
	}
	if !mode.Remembers() || !h.ok {
		return false
	}
	on := h.timeline
	if slot == PrimarySlot {
		on = 0
	} else {
		s.aside, s.isAside = h.by, true
		if on == 0 {
			on = unproven
		}
	}
	moved := s.fence.Saw(h.by, on)
	// A linear read has a probe of its own.
	return mode == fence.Causal && (moved || slot == PrimarySlot)
}

// Parted reports whether the given run of the primary, on that timeline, may lack what the
// session has written, or what it has seen and its mode, or the open block, must not
// forget. It does so once.
func (s *Session) Parted(from fence.Server, on lsn.Timeline) bool {
	parted := s.fence.Parted(from, on)
	if s.block.ran && s.block.on != 0 && s.block.on != on {
		s.block.on, parted = 0, true
	}
	return parted
}

// Aside gives the replica that the session has read since it last used the primary:
// what that has shown, the primary may not show yet.
func (s *Session) Aside() (by fence.Server, ok bool) { return s.aside, s.isAside }

// unproven is the timeline of a replica of which none is known: what it has shown may be
// part of no history.
const unproven = ^lsn.Timeline(0)

// elsewhere stands for a replica that was read before the session has moved here.
var elsewhere = fence.Server{Backend: route.None}
