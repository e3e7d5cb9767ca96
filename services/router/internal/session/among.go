package session

import (
	"bytes"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// A string in which statements about the router's parameters are among others goes to the
// primary without them, and they are executed in their places between its answers. What
// they set is undone with the rest of the string if that fails, so what the others do to
// the transaction has to be known.

// among is such a string.
type among struct {
	// rest is what the server gets, nil if that is not certain, own what it does not.
	rest []byte
	own  []settings.Among
	// done is how many statements of the rest have been executed.
	done int
	// warns says that the only statement is a SET LOCAL outside of a transaction block.
	warns bool
}

// parts takes a string apart; nil if it is none of these.
func (s *Session) parts(text []byte) *among {
	rest, own := settings.Part(text)
	if own == nil {
		return nil
	}
	return &among{rest: rest, own: own}
}

// partial answers the string at the head with an error if it cannot be executed, and
// reports whether it has. Its verdict, of what the server would get, is there.
func (s *Session) partial(text []byte) bool {
	p := s.checkAmong(text)
	if p == nil {
		s.verdict.Kind = verdict.Write // nobody needs to know where its reads would go
		return false
	}
	s.among = nil
	s.answerOwn(&ownQuery{problem: p})
	s.ranHere()
	return true
}

// checkAmong gives the error of such a string. A value that is not allowed is one before
// anything is executed, as an error of syntax is.
func (s *Session) checkAmong(text []byte) *Problem {
	a := s.among
	if s.failing() && !settings.BeginsWithEnd(text) {
		return &aborted
	}
	for i := range a.own {
		o := &a.own[i].Own
		if o.Name == override.FenceName || o.Name == override.FencingName && o.Verb != settings.ShowOwn {
			return mixed(o.Name, "It decides how the others wait. Send it by itself.")
		}
		if p := checkParameter(o); p != nil {
			return p
		}
	}
	ends := s.verdict.Fingerprint == 0 || s.verdict.Effects.Has(verdict.Transaction)
	if a.rest == nil || !s.legible(text) || ends && followed(a.rest) == nil || s.executesBlock(&s.verdict) {
		return mixed(a.own[0].Name, "It is pgpilot's own, and what the others do is not certain. Send it by itself.")
	}
	return s.refusedText(a.rest, &s.verdict)
}

// mixed is the error of a string in which a parameter cannot be among others.
func mixed(name, hint string) *Problem {
	return &Problem{
		Code: "0A000", Message: "parameter " + quoted(name) + " cannot be set or shown in one string with these statements", Hint: hint,
	}
}

// sendParts sends the connection that is granted what is a server's of the string at the
// head.
func (s *Session) sendParts(run *forwarding) {
	msg := wire.AppendQuery(nil, string(s.among.rest))
	s.begin(wire.Query, msg, true)
	run.build(func(b []byte) []byte { return append(b, msg...) })
}

// unparsed reports whether a server says with an error that it cannot read the string, so
// that it has executed none of it: by where in PostgreSQL the error was raised ("Error and
// Notice Message Fields"), and that it was not within a function, which reads statements,
// too: then there is a context, or, while one is compiled, it is about something in the
// string that has its body. The SQLSTATE does not tell: 42601 is also what is said of the
// columns of an INSERT when its turn comes.
func (a *among) unparsed(msg []byte) bool {
	read := false
	for b := msg[wire.HeaderSize:]; len(b) > 1; {
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			break
		}
		switch value := string(b[1:end]); b[0] {
		case 'F':
			read = value == "scan.l" || value == "gram.y" || value == "parser.c" || value == "scansup.c"
		case 'W', 'q':
			return false
		case 'P':
			if n, err := strconv.Atoi(value); err == nil && settings.InsideString(a.rest, n-1) {
				return false
			}
		}
		b = b[end+1:]
	}
	return read
}

// precedes executes the statements that come before what the server executes, when it
// shows by its first message that it has begun.
func (s *Session) precedes(a *among, typ byte, msg []byte) {
	switch typ {
	case wire.ParameterStatus, wire.NotificationResponse, wire.ReadyForQuery:
		return
	case wire.NoticeResponse, wire.ErrorResponse:
		if len(a.rest) == 0 || farewell(typ, msg) || a.unparsed(msg) {
			return
		}
	}
	s.runAmong(a)
}

// succeeds executes the statements that come behind one that the server has executed.
func (s *Session) succeeds(a *among, typ byte) {
	if typ == wire.CommandComplete {
		a.done++
		s.runAmong(a)
	}
}

// runAmong executes those whose turn has come.
func (s *Session) runAmong(a *among) {
	from := len(s.scratch)
	if a.warns {
		a.warns = false
		s.warnOfLocal()
	}
	for len(a.own) > 0 && a.own[0].Behind <= a.done {
		s.runOne(&a.own[0].Own)
		a.own = a.own[1:]
	}
	if len(s.scratch) > from {
		s.toClient(from)
	}
}
