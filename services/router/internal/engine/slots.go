package engine

import "github.com/pgpilot/pgpilot/services/router/internal/poll"

// handler is whatever owns a descriptor.
type handler interface {
	event(ev poll.Event)
}

// slotTable maps epoll tokens to handlers. A slot's generation grows whenever it
// is freed, so an event of an earlier use finds nothing.
type slotTable struct {
	slots []slot
	free  []uint32
}

type slot struct {
	gen uint32
	h   handler
}

func (t *slotTable) add(h handler) poll.Token {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		t.slots[i].h = h
		return poll.Token{Slot: i, Gen: t.slots[i].gen}
	}
	t.slots = append(t.slots, slot{h: h})
	return poll.Token{Slot: uint32(len(t.slots) - 1)}
}

func (t *slotTable) remove(tok poll.Token) {
	s := &t.slots[tok.Slot]
	if s.gen != tok.Gen || s.h == nil {
		return
	}
	s.h = nil
	s.gen++
	t.free = append(t.free, tok.Slot)
}

func (t *slotTable) get(tok poll.Token) handler {
	if int(tok.Slot) >= len(t.slots) || t.slots[tok.Slot].gen != tok.Gen {
		return nil
	}
	return t.slots[tok.Slot].h
}
