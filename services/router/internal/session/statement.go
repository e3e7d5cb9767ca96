package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// Statement is what a client has prepared with Parse, independent of any
// connection: on a server it exists under a name made of its content, so that
// sessions share it, and is made again wherever it is missing.
type Statement struct {
	// client is its client's name for it; empty for the unnamed statement.
	client string
	// body is the text and its end, and the parameter types as in Parse: a count and
	// that many oids. The types freeze at the first Parse, so they belong to what the
	// statement is.
	body []byte
	// text is how much of the body is text.
	text int
	id   statementID
	// server is its name on servers; empty for the unnamed statement.
	server  string
	verdict verdict.Verdict
	// raw says that nobody has looked into the text, nor kept it: the statement lives
	// on the primary connection, under the client's name.
	raw bool
	// sql says that it was prepared with PREPARE, whose text is in the body. It is raw,
	// but for what nobody knows of those.
	sql bool
	// local says that the router executes it itself; forgets, that the server executes
	// it and then has no prepared statements left, drops, that it then has none of that name.
	local   local
	forgets bool
	drops   string
	// copies says that it may copy in.
	copies bool
	// told is what its client knows of its parameters and rows.
	told told
	// cmds is what it does to settings.
	cmds []settings.Command
	// hint is what its comments ask for; hintless says that they can ask for nothing.
	hint     *hints
	hintless bool
	// parsing is what was set when it was parsed, as far as that matters; passing says that this
	// is known of no other moment than one at which it had to be prepared anew.
	parsing settings.Hash
	passing bool
	// birth is when.
	birth birth
}

// statementID is a statement's content, hashed so that no client can make one
// that is taken for another's.
type statementID [24]byte

// told is what has been said of a statement's parameters and of its rows, if it
// has been said. The formats of columns are left out: they are a portal's.
type told struct {
	params, rows     description
	isParams, isRows bool
}

// description is a hash of a ParameterDescription, or of a RowDescription or
// NoData.
type description [16]byte

// contradicts reports whether both say something and not the same.
func (t *told) contradicts(u *told) bool {
	return t.isParams && u.isParams && t.params != u.params || t.isRows && u.isRows && t.rows != u.rows
}

// covers reports whether t says all that u says.
func (t *told) covers(u *told) bool {
	return (t.isParams || !u.isParams) && (t.isRows || !u.isRows)
}

// set makes s the statement of a Parse under these settings. One that may be the
// same is compared first.
func (s *Statement) set(body []byte, text int, like *Statement, parsing settings.Hash) {
	*s = Statement{body: append(s.body[:0], body...), text: text, parsing: parsing}
	if like != nil && like.text == text && like.parsing == parsing && bytes.Equal(like.body, body) {
		s.id = like.id
		return
	}
	s.identify()
}

// identify makes the id of what s is.
func (s *Statement) identify() {
	var sum [sha256.Size]byte
	if s.parsing == (settings.Hash{}) {
		sum = sha256.Sum256(s.body)
	} else {
		sum = sha256.Sum256(append(s.body, s.parsing[:]...))
	}
	copy(s.id[:], sum[:])
}

// looked gives its text, nil if nobody has looked into that.
func (s *Statement) looked() []byte {
	if s.raw {
		return nil
	}
	return s.body[:s.text]
}

// in makes it the statement that is parsed under these settings, and reports whether it was
// another one.
func (s *Statement) in(parsing settings.Hash) bool {
	if s.parsing == parsing {
		return false
	}
	s.parsing = parsing
	s.identify()
	if s.server != "" && !s.sql {
		s.name(s.client)
	}
	return true
}

// serverPrefix begins the names of statements on servers.
const serverPrefix = "pgpilot_"

// name gives the statement its names.
func (s *Statement) name(client string) {
	s.client = client
	s.server = serverPrefix + base64.RawURLEncoding.EncodeToString(s.id[:])
}

// scope says which statements a change of this one changes.
func (s *Statement) scope() scope {
	if s.server == "" {
		return unnamedScope
	}
	return namedScope
}

// Statements is what one server connection holds of prepared statements. It
// belongs to the connection and is used by the session that has it.
type Statements struct {
	held  map[string]*heldStatement
	clock uint64
	// hold is the clock from which on what is used is not removed to make room; 0: all
	// may be.
	hold uint64
	// unnamed is the unnamed statement; its used is zero if there is none.
	unnamed   heldStatement
	unnamedID statementID
	// sql is what it holds under the names that a client gave.
	sql map[string]underName
}

// underName is what a connection holds under the name that a client gave.
type underName struct {
	id   statementID
	from origin
}

type heldStatement struct {
	used uint64
	// stale says that the server refuses to run it as it is there: it is to be parsed
	// again.
	stale bool
	// told is how the server describes it.
	told told
	// from is when it was parsed.
	from origin
}

// Clear forgets everything: DISCARD ALL or DEALLOCATE ALL has run.
func (t *Statements) Clear() { *t = Statements{clock: t.clock} }

// clearBefore forgets everything but what the server is still to be given, by messages that
// it has been sent.
func (t *Statements) clearBefore(behind []owed) {
	was := *t
	t.Clear()
	for i := range behind {
		switch o := &behind[i]; {
		case o.also().gives != "":
			if at, ok := was.sql[o.more.gives]; ok {
				t.prepare(o.more.gives, at)
			}
		case o.typ != wire.Parse || o.how == made || o.st == nil:
		case o.server == "":
			t.unnamed, t.unnamedID = was.unnamed, was.unnamedID
		case was.held[o.server] != nil:
			t.restore(o.server)
			t.held[o.server] = was.held[o.server]
		}
	}
}

// Len is how many named statements the connection holds.
func (t *Statements) Len() int { return len(t.held) }

// find gives what the connection holds of the statement, nil for nothing, and
// notes its use.
func (t *Statements) find(st *Statement) *heldStatement {
	h := t.peek(st)
	if h != nil && st.server != "" {
		t.clock++
		h.used = t.clock
	}
	return h
}

// peek gives it without that.
func (t *Statements) peek(st *Statement) *heldStatement {
	if st.server != "" {
		return t.held[st.server]
	}
	if t.unnamed.used != 0 && t.unnamedID == st.id {
		return &t.unnamed
	}
	return nil
}

// add notes that the server parses the statement.
func (t *Statements) add(st *Statement, from origin) {
	t.clock++
	if st.server == "" {
		t.unnamedID, t.unnamed = st.id, heldStatement{used: t.clock, from: from}
		return
	}
	t.restore(st.server)
	t.held[st.server].from = from
}

// restore notes that the server has a statement of that name, after all.
func (t *Statements) restore(name string) {
	if t.held == nil {
		t.held = map[string]*heldStatement{}
	}
	t.held[name] = &heldStatement{used: t.clock}
}

// remove notes that the server did not parse the statement of that name there, which is
// empty for the unnamed one.
func (t *Statements) remove(name string) {
	if name == "" {
		t.dropUnnamed()
		return
	}
	delete(t.held, name)
}

// Queried notes that a simple query has run.
func (t *Statements) Queried() { t.dropUnnamed() }

// dropUnnamed notes that the unnamed statement is gone: a simple query or a
// failed Parse ends it.
func (t *Statements) dropUnnamed() { t.unnamed = heldStatement{} }

// keep has what is used from now on stay: a sequence that is to be prepared as a
// whole may need more statements than there is room for.
func (t *Statements) keep() {
	t.clock++
	t.hold = t.clock
}

// excess removes and gives the name of the statement unused for longest, if there
// is no room for another one; otherwise it gives none.
func (t *Statements) excess(limit int) string {
	if len(t.held) == 0 || len(t.held) < limit {
		return ""
	}
	var name string
	var least *heldStatement
	for n, h := range t.held {
		if (least == nil || h.used < least.used) && (t.hold == 0 || h.used < t.hold) {
			name, least = n, h
		}
	}
	if least != nil {
		delete(t.held, name)
	}
	return name
}
