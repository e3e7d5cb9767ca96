package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// A statement that the router executes itself has the parameters that are declared for it,
// and makes no use of them. A server counts them and converts what is bound to them all the
// same ("Message Flow: Extended Query").

// parameters is how many are declared for a statement.
func (s *Statement) parameters() int { return int(binary.BigEndian.Uint16(s.body[s.text+1:])) }

// undetermined gives the error of a Parse with such types of parameters, of a text that uses
// none of them: each must be a type ("Message Formats", Parse).
func undetermined(types []byte) *Problem {
	for n := 1; len(types) >= 4; n++ {
		if t := binary.BigEndian.Uint32(types); t == 0 || t == unknownType {
			return &Problem{Code: "42P18", Message: fmt.Sprintf("could not determine data type of parameter $%d", n)}
		}
		types = types[4:]
	}
	return nil
}

// unknownType is the oid of the type unknown, which stands for none.
const unknownType = 705

// binding is what a Bind says behind its names.
type binding struct {
	// readable says that the values have been reached, of which there are count, whole that
	// all of it has been read.
	readable, whole bool
	formats         []int16
	count           int
	results         []int16
}

// readBinding reads a Bind, of which the end may be missing.
func readBinding(msg []byte) (b binding) {
	_, _, rest, ok := splitBind(msg)
	if !ok {
		return b
	}
	if b.formats, rest, ok = shorts(rest); !ok || len(rest) < 2 {
		return b
	}
	b.readable, b.count, rest = true, int(binary.BigEndian.Uint16(rest)), rest[2:]
	for range b.count {
		if len(rest) < 4 {
			return b
		}
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n = max(n, 0); len(rest) < int(n) {
			return b
		}
		rest = rest[n:]
	}
	b.results, rest, ok = shorts(rest)
	b.whole = ok && len(rest) == 0
	return b
}

// malformed is the server's error for a message that it cannot read.
var malformed = Problem{Code: protocolViolation, Message: "invalid message format"}

// checkParameters gives the error of binding so many parameters to a statement.
func (b *binding) checkParameters(st *Statement) *Problem {
	switch n := st.parameters(); {
	case !b.readable:
		return &malformed
	case len(b.formats) > 1 && len(b.formats) != b.count:
		return &Problem{Code: protocolViolation, Message: fmt.Sprintf("bind message has %d parameter formats but %d parameters", len(b.formats), b.count)}
	case b.count != n:
		return &Problem{Code: protocolViolation, Message: fmt.Sprintf("bind message supplies %d parameters, but prepared statement %s requires %d", b.count, quoted(st.client), n)}
	}
	return nil
}

// checkFormats gives the error of the formats that are asked for, once the parameters are
// what they should be.
func (s *Session) checkFormats(st *Statement, b *binding) *Problem {
	switch {
	case !b.whole && st.parameters() == 0:
		return &malformed
	case !b.whole || !st.local.shows():
		return nil // whoever converts the parameters says what is wrong
	}
	if n := len(s.shows(st.local.own.Name)); len(b.results) > 1 && len(b.results) != n {
		return &Problem{Code: protocolViolation, Message: fmt.Sprintf("bind message has %d result formats but query has %d columns", len(b.results), n)}
	}
	return nil
}

// bindHere binds a statement that the router executes itself.
func (s *Session) bindHere(st *Statement, portal []byte, total int, rest, all []byte, at int, run *forwarding) int {
	if s.owed.syncs > 0 {
		return s.wait()
	}
	if s.awaitsEnd(run) || s.awaitsPortals(run) {
		return 0
	}
	if len(rest) < min(total, maxHeld) {
		return 0
	}
	given := readBinding(rest[:min(total, len(rest))])
	p := given.checkParameters(st)
	switch {
	case p != nil:
	case s.failing():
		p = &aborted
	default:
		p = s.checkBind(portal)
	}
	if p != nil {
		s.fail(run, p)
		return s.drop(total, rest)
	}
	if st.parameters() > 0 {
		n := s.convert(st, total, rest, all, at, run)
		if p = s.checkFormats(st, &given); p != nil { // all of the message is there
			s.fail(run, p)
			return n
		}
		bound := st.formatted(given.results)
		s.binds(portal, bound, nil)
		s.owed.sent(owed{typ: wire.Bind, st: bound, how: made}) // behind what the server answers
		return n
	}
	if p = s.checkFormats(st, &given); p != nil {
		s.fail(run, p)
		return s.drop(total, rest)
	}
	if len(portal) == 0 {
		// It takes the place of the one that the server has.
		s.closePortal(run)
	}
	bound := st.formatted(given.results)
	s.binds(portal, bound, nil)
	s.answerHere(owed{typ: wire.Bind, st: bound}, run)
	return s.drop(total, rest)
}

// convert has the server convert what a Bind gives for the parameters, and returns how many
// bytes of it are used: it binds, unseen, a statement that has the same ones. The portal,
// which fails if it is run after all, takes the place of the one that the server has under
// its name.
func (s *Session) convert(st *Statement, total int, rest, all []byte, at int, run *forwarding) int {
	n := min(total, len(rest))
	portal, name, tail, _ := splitBind(rest[:n])
	head := n - len(tail) // up to the parameters
	for _, typ := range []byte{wire.Close, wire.Parse, wire.Bind} {
		s.owed.sent(owed{typ: typ, how: hide})
	}
	run.build(func(b []byte) []byte {
		b = appendTarget(b, wire.Close, decoy)
		b = appendParse(b, decoy, slices.Concat(takerBody[:len(takerBody)-2], st.body[st.text+1:]))
		b = append(b, wire.Bind)
		b = binary.BigEndian.AppendUint32(b, uint32(total-1+len(decoy)-len(name)))
		b = append(append(b, portal...), 0)
		return append(append(b, decoy...), 0)
	})
	s.take(total, rest)
	run.add(all, at+head, n-head)
	return n
}

// shorts reads a count and that many 16-bit integers.
func shorts(b []byte) (ns []int16, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if len(b) < 2*n {
		return nil, nil, false
	}
	for i := range n {
		ns = append(ns, int16(binary.BigEndian.Uint16(b[2*i:])))
	}
	return ns, b[2*n:], true
}

// formatted gives the statement of a portal whose columns have the formats.
func (st *Statement) formatted(formats []int16) *Statement {
	if !st.local.shows() || len(formats) == 0 {
		return st
	}
	portal := *st
	portal.body = bytes.Clone(st.body) // st may be used for another text
	portal.local.formats = formats
	return &portal
}
