package session

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
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
	switch {
	case !outdated(msg):
	case simple(front.typ):
		s.outdates(usesIn(&s.verdict))
	case s.latest.st != nil:
		s.outdates(usesIn(&s.latest.st.verdict))
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
	case front.also().instead != nil && (code == noSuchStatement || code == takenName):
		s.word = front.more.instead
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

// inClientsWords gives an error that names a statement of the session as the server knows it,
// that of the message which failed or, where that has none, another one, with the client's
// name for it and the server's message as it is otherwise; nil if there is none in it.
func (s *Session) inClientsWords(of *owed, msg []byte) *Problem {
	if of.st != nil {
		return inWordsOf(of.st, of.server, msg)
	}
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		if p := inWordsOf(s.named[name], s.named[name].server, msg); p != nil {
			return p
		}
	}
	return nil
}

// inWordsOf gives an error whose text names the statement, under a name of servers, so; nil if
// it does not name it.
func inWordsOf(st *Statement, server string, msg []byte) *Problem {
	if st.raw || server == "" || !isWhole(msg) {
		return nil
	}
	whole := bytes.Clone(msg[:wire.HeaderSize])
	found := false
	for b := msg[wire.HeaderSize:]; len(b) > 0; {
		field, rest, _ := bytes.Cut(b, []byte{0})
		b = rest
		if len(field) > 0 && field[0] == 'M' && bytes.Contains(field, []byte(server)) {
			field, found = bytes.ReplaceAll(field, []byte(server), []byte(st.client)), true
		}
		whole = append(append(whole, field...), 0)
	}
	if !found {
		return nil
	}
	binary.BigEndian.PutUint32(whole[1:], uint32(len(whole)-1))
	return &Problem{whole: whole}
}

// isWhole reports whether all of a message is there.
func isWhole(msg []byte) bool {
	_, total, err := wire.Header(msg)
	return err == nil && total == len(msg)
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
	if o.st.sql {
		s.outdates([]use{{toExecute, o.st.client}})
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
