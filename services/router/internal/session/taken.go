package session

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
