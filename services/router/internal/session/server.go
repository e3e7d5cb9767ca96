package session

import (
	"bytes"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// maxHeld is the largest server message that is looked at whole before it is
// forwarded, in bytes; a larger one passes through in pieces.
const maxHeld = 64 << 10

// FromServer looks at bytes of the connection in the slot and returns how many it
// has used. The rest must be given again with what came after it.
func (s *Session) FromServer(slot Slot, b []byte) int {
	used := 0
	shown := 0 // b[:shown] has been forwarded or withheld
	show := func(to int) {
		if shown < to {
			s.do(Action{Op: OpToClient, Data: b[shown:to]})
			shown = to
		}
	}
	if slot != s.at {
		// Nothing was asked there. Whatever it says, it is not worth a half-read
		// connection later.
		s.let(slot, Broken)
		return len(b)
	}
	for used < len(b) && s.held[slot].ok {
		if s.fromServer > 0 {
			n := min(s.fromServer, len(b)-used)
			s.fromServer -= n
			used += n
			continue
		}
		typ, total, err := wire.Header(b[used:])
		if err != nil {
			show(used)
			s.ServerLost(slot)
			return len(b)
		}
		if total == 0 {
			break
		}
		n := min(total, len(b)-used)
		if n < total && held1(typ) && total <= maxHeld {
			break
		}
		msg := b[used : used+n]
		if s.again != nil && s.runAgain(typ, msg, n == total) {
			return len(b)
		}
		switch typ {
		case wire.ReadyForQuery:
			if n < wire.HeaderSize+1 || total < wire.HeaderSize+1 {
				show(used)
				s.ServerLost(slot)
				return len(b)
			}
			show(used)
			used += n
			s.fromServer = total - n
			shown = used
			s.ready(msg[wire.HeaderSize])
			continue
		case wire.ParameterStatus:
			if n == total && !s.note(msg[wire.HeaderSize:]) {
				show(used)
				shown = used + n
			}
		default:
			if _, ok := s.owed.answered(typ); !ok {
				show(used)
				s.ServerLost(slot)
				return len(b)
			}
			if typ == wire.CopyInResponse {
				s.copyIn = true
			}
			if typ == wire.ErrorResponse {
				s.copyIn = false
				s.fatal = n == total && field(msg, 'V') == "FATAL"
			}
		}
		used += n
		s.fromServer = total - n
	}
	show(used)
	return used
}

// held1 reports whether a message's content matters here, so that it is looked
// at only when all of it is there.
func held1(typ byte) bool {
	switch typ {
	case wire.ReadyForQuery, wire.ParameterStatus, wire.ErrorResponse, wire.NoticeResponse:
		return true
	}
	return false
}

// runAgain decides, at the first message of a read's answer, whether the read
// can still run elsewhere. It reports true when the server is ending the
// connection instead of answering: that answer is not shown.
func (s *Session) runAgain(typ byte, msg []byte, whole bool) bool {
	switch typ {
	case wire.ParameterStatus, wire.NotificationResponse: // answer nothing
		return false
	case wire.ErrorResponse:
		if whole && field(msg, 'V') == "FATAL" {
			s.ServerLost(s.at)
			return true
		}
	case wire.NoticeResponse:
		// The last word of a server that stops in immediate mode (57P01), or that ends
		// every connection because one of its processes crashed (57P02), is a WARNING.
		if code := field(msg, 'C'); whole && (code == "57P01" || code == "57P02") {
			s.ServerLost(s.at)
			return true
		}
	}
	s.env.Drop(s.again)
	s.again = nil
	return false
}

// field gives a field of an ErrorResponse or NoticeResponse (PostgreSQL
// documentation, "Error and Notice Message Fields"): 'V' is the severity, never
// translated, 'C' the SQLSTATE.
func field(msg []byte, code byte) string {
	for b := msg[wire.HeaderSize:]; len(b) > 1; {
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			return ""
		}
		if b[0] == code {
			return string(b[1:end])
		}
		b = b[end+1:]
	}
	return ""
}

// ready handles ReadyForQuery: show it, and let go of what is no longer needed.
func (s *Session) ready(status byte) {
	if _, ok := s.owed.answered(wire.ReadyForQuery); !ok {
		s.ServerLost(s.at)
		return
	}
	from := len(s.scratch)
	s.scratch = wire.AppendReadyForQuery(s.scratch, status)
	s.toClient(from)
	s.status = status
	s.copyIn = false
	if status == wire.Idle && s.written && s.owed.empty() {
		s.written = false
		s.do(Action{Op: OpSettle, Mark: s.fence.Mark()})
	}
	if !s.owed.empty() {
		return
	}
	s.do(Action{Op: OpAnswered})
	s.extended = false
	s.enter(Idle)
	switch {
	case s.fromClient > 0 && !s.discard:
		// The client is in the middle of a message for a statement that is over (data
		// for a copy that failed). The connection cannot be lent with half a message in
		// it; what follows is ignored, as the server would.
		s.discard = true
		s.let(s.at, Broken)
	case status == wire.Idle && s.pin == "" && !s.env.Settings().PerSession:
		s.let(s.at, Clean)
	}
	if s.leaving && status == wire.Idle {
		s.finish(&shutdown)
	}
}

// let gives a connection back.
func (s *Session) let(slot Slot, how Condition) {
	h := &s.held[slot]
	if !h.ok {
		return
	}
	if how == Clean && h.used {
		how = Used
	}
	*h = held{}
	s.do(Action{Op: OpRelease, Slot: slot, How: how})
}

// note remembers a parameter the server reports, and reports whether the client
// is to see it: to its client the router is a primary, wherever reads run.
func (s *Session) note(body []byte) bool {
	name, rest, ok := bytes.Cut(body, []byte{0})
	value, ok2 := wire.CString(rest)
	if !ok || !ok2 {
		return true
	}
	if string(name) == "in_hot_standby" {
		return false
	}
	for i := range s.shown {
		if s.shown[i].Name == string(name) {
			if s.shown[i].Value != string(value) {
				s.shown = append([]handoff.Parameter(nil), s.shown...) // shared until now
				s.shown[i].Value = string(value)
			}
			return true
		}
	}
	s.shown = append(s.shown[:len(s.shown):len(s.shown)], handoff.Parameter{Name: string(name), Value: string(value)})
	return true
}

// Granted lends a connection. The session holds it from now on.
func (s *Session) Granted(g *Grant) {
	if s.phase != Queued && s.phase != Login {
		return
	}
	h := &s.held[g.Slot]
	h.ok, h.by = true, g.Server
	s.at = g.Slot
	if s.phase == Login {
		s.greet(g.Parameters)
		s.let(g.Slot, Clean)
		return
	}
	s.last = handoff.Route{
		Backend: g.Name, Role: g.Role.String(), Reason: g.Reason.String(),
		Fence: s.fence.Position(), Replay: g.Replayed, WaitedMicros: g.Waited.Microseconds(),
	}
	if s.again != nil {
		s.owed.sent(wire.Query)
		s.do(Action{Op: OpToServer, Slot: s.at, Data: s.again})
		s.enter(Busy)
		return
	}
	s.enter(Granted)
}
