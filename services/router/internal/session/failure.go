package session

import (
	"bytes"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// failed follows the server after an error.
func (s *Session) failed(msg []byte) fate {
	front := *s.owed.front()
	code := errorCode(msg)
	vanished := s.refused(&front, code)
	if front.stray != 0 && !s.fatal {
		s.owed.failed()
		return withhold // what waits has not run
	}
	stray := s.ofStray(msg, code)
	if (front.how == hide || vanished) && !s.fatal && code != canceled.Code && s.elsewhere() {
		return withhold
	}
	var named *Problem
	if bytes.Contains(msg, []byte(serverPrefix)) {
		named = s.inClientsWords(&front, msg)
	}
	s.set.Failed()
	s.takeBack(s.owed.failed(), true)
	s.unask()
	s.missing = nil
	if s.phase == Busy {
		s.enter(Busy) // what waited is discarded
	}
	s.begunToShow()
	if front.begins && !s.fatal {
		s.fell()
	}
	switch {
	case s.fatal:
	case stray != nil:
		s.word = stray
		return replace
	case front.instead != nil && (code == noSuchStatement || code == takenName):
		s.word = front.instead
		return replace
	case vanished && code == noSuchStatement:
		s.word = unknown(front.st.client)
		return replace
	case named != nil:
		s.word = named
		return replace
	}
	return pass
}

// inClientsWords gives an error that names a statement of the session as the
// server knows it, that of the message which failed or another one, with the client's name
// for it; nil if there is none in it.
func (s *Session) inClientsWords(of *owed, msg []byte) *Problem {
	var e pgproto3.ErrorResponse
	if err := e.Decode(msg[wire.HeaderSize:]); err != nil {
		return nil
	}
	words := func(st *Statement) *Problem {
		if st == nil || st.raw || st.server == "" || !strings.Contains(e.Message, st.server) {
			return nil
		}
		return &Problem{Code: e.Code, Message: strings.ReplaceAll(e.Message, st.server, st.client), Detail: e.Detail, Hint: e.Hint}
	}
	if p := words(of.st); p != nil {
		return p
	}
	for _, st := range s.named {
		if p := words(st); p != nil {
			return p
		}
	}
	return nil
}

// What servers say of a statement they do not have, of one that they have
// already, and of one whose result has changed ("PostgreSQL Error Codes").
const (
	noSuchStatement = "26000"
	takenName       = "42P05"
	unsupported     = "0A000"
)

// refused takes note of a statement that the connection cannot run as it holds
// it, or does not hold after all: it is parsed again before its next use.
func (s *Session) refused(o *owed, code string) bool {
	if o.st == nil || o.typ != wire.Bind && o.typ != wire.Describe || o.portal || code != noSuchStatement && code != unsupported {
		return false
	}
	if h := s.held[s.at].statements.find(o.st); h != nil {
		h.stale = true
	}
	return !o.st.raw
}

// errorCode gives the SQLSTATE of an ErrorResponse.
func errorCode(msg []byte) string {
	for b := msg[wire.HeaderSize:]; len(b) > 1; {
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			break
		}
		if b[0] == 'C' {
			return string(b[1:end])
		}
		b = b[end+1:]
	}
	return ""
}

// farewell reports whether a server says with this message that it ends the
// connection: with a FATAL error, or, when all of its processes end at once, with a
// WARNING of class 57P ("PostgreSQL Error Codes").
func farewell(typ byte, msg []byte) bool {
	if typ != wire.ErrorResponse && typ != wire.NoticeResponse {
		return false
	}
	fatal, warning, ends := false, false, false
	for b := msg[wire.HeaderSize:]; len(b) > 1; {
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			break
		}
		switch value := b[1:end]; b[0] {
		case 'V': // the severity, not localized
			fatal = string(value) == "FATAL" || string(value) == "PANIC"
			warning = string(value) == "WARNING"
		case 'C':
			ends = bytes.HasPrefix(value, []byte("57P"))
		}
		b = b[end+1:]
	}
	if typ == wire.ErrorResponse {
		return fatal
	}
	return warning && ends
}

// problem reads why a server ends a connection; nil where the client is to blame
// (class 08: it has broken the protocol), so that its session ends too.
func problem(msg []byte) *Problem {
	var e pgproto3.ErrorResponse
	if err := e.Decode(msg[wire.HeaderSize:]); err != nil || e.Code == "" || strings.HasPrefix(e.Code, "08") {
		return nil
	}
	return &Problem{Code: e.Code, Message: e.Message, Detail: e.Detail, Hint: e.Hint}
}
