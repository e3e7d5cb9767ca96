package session

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/handoff"
	"github.com/pgpilot/pgpilot/libs/wire"
)

var (
	canceled       = Problem{Code: "57014", Message: "canceling statement due to user request"}
	shutdown       = Problem{Code: "57P01", Message: "terminating connection due to administrator command", Fatal: true}
	lostConnection = Problem{Code: "08006", Message: "server connection was lost while the statement ran"}
	lostState      = Problem{Code: "08006", Message: "server connection was lost", Fatal: true}
)

// greet tells a new client what a server tells it after authentication.
func (s *Session) greet(params []handoff.Parameter) {
	s.shown = params
	from := len(s.scratch)
	for _, p := range params {
		s.escapes = s.escapes || escapes(p.Name, p.Value)
		if p.Name == "in_hot_standby" {
			p.Value = "off" // to its client the router is a primary
		}
		s.encode(&pgproto3.ParameterStatus{Name: p.Name, Value: p.Value})
	}
	s.encode(&pgproto3.BackendKeyData{ProcessID: s.rec.Cancel.PID, SecretKey: s.rec.Cancel.Secret})
	s.scratch = wire.AppendReadyForQuery(s.scratch, wire.Idle)
	s.toClient(from)
	s.idle()
}

// answer answers a simple query with an error.
func (s *Session) answer(p *Problem) {
	from := len(s.scratch)
	s.encodeProblem(p)
	s.scratch = wire.AppendReadyForQuery(s.scratch, s.status)
	s.toClient(from)
}

// report shows an error without a ReadyForQuery.
func (s *Session) report(p *Problem) {
	from := len(s.scratch)
	s.encodeProblem(p)
	s.toClient(from)
}

func (s *Session) encodeProblem(p *Problem) {
	if p.whole != nil && !p.Fatal {
		s.scratch = append(s.scratch, p.whole...)
		return
	}
	severity := "ERROR"
	if p.Fatal {
		severity = "FATAL"
	}
	s.encode(&pgproto3.ErrorResponse{
		Severity: severity, SeverityUnlocalized: severity,
		Code: p.Code, Message: p.Message, Detail: p.Detail, Hint: p.Hint, File: p.File, Routine: p.Routine,
	})
}

// Warn shows the client a WARNING, where its place in the stream allows it: not
// in the middle of a message.
func (s *Session) Warn(code, message, hint string) {
	if s.fromServer > 0 || s.phase == Closed || s.phase == Passing {
		return
	}
	from := len(s.scratch)
	s.encodeWarning(code, message, hint)
	s.toClient(from)
}

func (s *Session) encodeWarning(code, message, hint string) {
	s.encode(&pgproto3.NoticeResponse{Severity: "WARNING", SeverityUnlocalized: "WARNING", Code: code, Message: message, Hint: hint})
}

func (s *Session) encode(m pgproto3.BackendMessage) {
	b, err := m.Encode(s.scratch)
	if err != nil {
		// A message made here is too large for the protocol: impossible for these.
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	s.scratch = b
}
