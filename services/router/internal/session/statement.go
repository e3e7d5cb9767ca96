package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Statement is what a client has prepared with Parse, independent of any
// connection: on a server it exists under a name made of its content, so that
// sessions share it, and is made again wherever it is missing.
type Statement struct {
	text []byte
	// types are the parameter types as in Parse: a count and that many oids. They
	// freeze at the first Parse, so they belong to what the statement is.
	types []byte
	id    statementID
	// server is its name on servers; empty for the unnamed statement.
	server  string
	verdict verdict.Verdict
	// told is what its client knows of its parameters and rows, if isTold.
	told   description
	isTold bool
}

// statementID is a statement's content, hashed so that no client can make one
// that is taken for another's.
type statementID [24]byte

// description is a hash of a ParameterDescription and a RowDescription or NoData.
type description [16]byte

// set makes s the statement of a Parse.
func (s *Statement) set(text, types []byte, v verdict.Verdict) {
	s.verdict = v
	s.isTold = false
	if s.text != nil && bytes.Equal(s.text, text) && bytes.Equal(s.types, types) {
		return
	}
	s.text = append(s.text[:0], text...)
	s.types = append(s.types[:0], types...)
	h := sha256.New()
	h.Write(types)
	h.Write(text)
	var sum [sha256.Size]byte
	copy(s.id[:], h.Sum(sum[:0]))
}

// serverPrefix begins the names of statements on servers.
const serverPrefix = "pgpilot_"

// name gives the statement its name on servers.
func (s *Statement) name() {
	s.server = serverPrefix + base64.RawURLEncoding.EncodeToString(s.id[:])
}

// Statements is what one server connection holds of prepared statements. It
// belongs to the connection and is used by the session that has it.
type Statements struct {
	held  map[string]*heldStatement
	clock uint64
	// unnamed is the unnamed statement; its used is zero if there is none.
	unnamed   heldStatement
	unnamedID statementID
}

type heldStatement struct {
	used uint64
	// told is how the server describes it, if isTold.
	told   description
	isTold bool
}

// Clear forgets everything: DISCARD ALL or DEALLOCATE ALL has run.
func (t *Statements) Clear() { *t = Statements{clock: t.clock} }

// Len is how many named statements the connection holds.
func (t *Statements) Len() int { return len(t.held) }

// find gives what the connection holds of the statement, nil for nothing, and
// notes its use.
func (t *Statements) find(st *Statement) *heldStatement {
	if st.server == "" {
		if t.unnamed.used != 0 && t.unnamedID == st.id {
			return &t.unnamed
		}
		return nil
	}
	h := t.held[st.server]
	if h != nil {
		t.clock++
		h.used = t.clock
	}
	return h
}

// add notes that the server parses the statement.
func (t *Statements) add(st *Statement) {
	t.clock++
	if st.server == "" {
		t.unnamedID, t.unnamed = st.id, heldStatement{used: t.clock}
		return
	}
	if t.held == nil {
		t.held = map[string]*heldStatement{}
	}
	t.held[st.server] = &heldStatement{used: t.clock}
}

// remove notes that the server did not parse the statement.
func (t *Statements) remove(st *Statement) {
	if st.server == "" {
		t.dropUnnamed()
		return
	}
	delete(t.held, st.server)
}

// dropUnnamed notes that the unnamed statement is gone: a simple query or a
// failed Parse ends it.
func (t *Statements) dropUnnamed() { t.unnamed = heldStatement{} }

// oldest removes and gives the name of the statement unused for longest.
func (t *Statements) oldest() string {
	var name string
	var least *heldStatement
	for n, h := range t.held {
		if least == nil || h.used < least.used {
			name, least = n, h
		}
	}
	delete(t.held, name)
	return name
}
