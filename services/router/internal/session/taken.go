package session

import (
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// A statement that the router executes itself takes its client's name as any other does,
// but no server has it. Before a PREPARE that gives the name a connection is given something
// under it, so that the server refuses, in the PREPARE's place; EXECUTE is not to find that.

// taker is what a connection has under the name of a statement that the router executes
// itself, so that the server refuses the name to a PREPARE. No content's hash is so.
var taker = statementID{0: 1}

// takerBody is its body: run after all, it fails.
var takerBody = []byte("DEALLOCATE " + noStatement + "\x00\x00\x00")

// there gives the id of what a connection has for the statement under its client's name.
func (s *Statement) there() statementID {
	if s.local.kind != notLocal {
		return taker
	}
	return s.id
}

// bodyThere gives the body of the Parse that makes it.
func (s *Statement) bodyThere() []byte {
	if s.local.kind != notLocal {
		return takerBody
	}
	return s.body
}

// taking makes a statement that only takes its name, unless there is one that does so.
func taking(name string, st *Statement) *Statement {
	if st != nil && st.local.kind != notLocal {
		return st
	}
	return &Statement{client: name, local: local{kind: deallocate}}
}

// decoy is the name of a statement that is parsed only to be taken.
const decoy = serverPrefix + "taken"

// parseTaken translates a Parse under a name that the client has given already: its
// name on the server is made to be taken, too. The server has as much to say against
// the text as otherwise, before it says that.
func (s *Session) parseTaken(name string, body []byte, total int, run *forwarding) int {
	s.takeDecoy(name, run)
	run.build(func(b []byte) []byte { return appendParse(b, decoy, body) })
	return total
}

// parseTakenBlindly does so for one that is not looked into.
func (s *Session) parseTakenBlindly(name string, length, total int, rest, all []byte, at int, run *forwarding) int {
	s.takeDecoy(name, run)
	n := min(total, len(rest))
	head := wire.HeaderSize + length + 1
	run.build(func(b []byte) []byte {
		b = append(b, wire.Parse)
		b = binary.BigEndian.AppendUint32(b, uint32(total-1+len(decoy)-length))
		return append(append(b, decoy...), 0)
	})
	s.take(total, rest)
	run.add(all, at+head, n-head)
	return n
}

// takeDecoy has the name of the decoy taken on the server, and the error of the Parse that
// follows name the client's.
func (s *Session) takeDecoy(name string, run *forwarding) {
	s.seq.parsed()
	s.owed.sent(owed{typ: wire.Close, how: hide})
	s.owed.sent(owed{typ: wire.Parse, how: hide})
	s.owed.sent(owed{typ: wire.Parse, more: &further{instead: &Problem{Code: takenName, Message: "prepared statement " + quoted(name) + " already exists"}}})
	run.build(func(b []byte) []byte {
		b = appendTarget(b, wire.Close, decoy)
		return appendParse(b, decoy, rollback)
	})
}
