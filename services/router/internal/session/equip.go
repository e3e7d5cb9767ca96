package session

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// A connection is equipped before a request that names statements as the client does:
// what it has under such a name of another session is deallocated, and what the client
// has prepared is prepared there, by the client's own text, so that an error is the one
// that EXECUTE would raise. Nothing of the request is sent before the answers.

// prepare notes that the connection has a statement under the name that its client gave.
func (t *Statements) prepare(name string, at underName) {
	if t.sql == nil {
		t.sql = map[string]underName{}
	}
	t.sql[name] = at
}

// has reports whether it has the statement under that name, however old.
func (t *Statements) has(st *Statement) bool {
	at, ok := t.sql[st.client]
	return ok && at.id == st.there()
}

// Names gives the names that clients gave to what the connection holds, in order; those
// that are made of their content are not among them.
func (t *Statements) Names() []string {
	var names []string
	for n := range t.sql {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// equipment is a name under which a connection is to have a statement; nil: nothing.
type equipment struct {
	name string
	st   *Statement
}

// equipping is what is under way of that.
type equipping struct {
	// steps are the requests that the server has yet to answer. Those that have no
	// equipment see to it that a failure of another one is none of the transaction.
	steps []equipment
	// all says that none of them is needed by itself, drops that the connection only loses
	// something: what the request needs is still to be looked at.
	all, drops bool
	// begun says that part of the answer to the step at hand has come, done that it has been
	// executed, whatever fails behind that; code is how it has failed, if it has.
	begun, done bool
	code        string
	// word is how the first one has failed, or the first that was canceled. kept says that
	// the connection still has what it should have lost.
	word *Problem
	kept bool
	// from is the origin of what the connection is given.
	from origin
	// aborts says that the last step makes the client's transaction fail.
	aborts bool
}

// stopped reports whether a step was canceled.
func (q *equipping) stopped() bool { return q.word != nil && q.word.Code == canceled.Code }

// others gives the names under which the connection in use has something that is not the
// client's.
func (s *Session) others() (names []string) {
	t := s.held[s.at].statements
	if len(t.sql) == 0 {
		return nil
	}
	for _, n := range t.Names() {
		if st := s.named[n]; st == nil || !t.has(st) {
			names = append(names, n)
		}
	}
	return names
}

// equips begins to equip the connection in use for the request at the head, of which msg
// is there, and reports whether there is anything to do.
func (s *Session) equips(typ byte, msg []byte) bool {
	t := s.held[s.at].statements
	if s.equipped || s.status == wire.Failed || len(t.sql) == 0 && !s.sql && s.verdict.Detail == nil && !s.deallocatesParsed(typ, msg) && !s.usesParsed(typ, msg) && (s.verdict.Kind == verdict.Read || !namesServers(typ, msg)) {
		return false
	}
	us, all := s.needs(typ, msg)
	if s.pins&pinState != 0 { // what is there is the client's
		us = slices.DeleteFunc(us, func(u use) bool {
			_, noted := t.sql[u.name]
			return s.named[u.name] == nil && !noted && t.held[u.name] == nil
		})
	}
	var todo []equipment
	for _, u := range us {
		todo = append(todo, s.lacking(u)...)
	}
	if all {
		for _, n := range s.others() {
			if !used(us, n) {
				todo = append(todo, equipment{n, nil})
			}
		}
		from := len(todo)
		for _, st := range s.named {
			if !st.sql || s.has(st) || used(us, st.client) {
				continue
			}
			if t.has(st) {
				todo = append(todo, equipment{st.client, nil})
			}
			todo = append(todo, equipment{st.client, st})
		}
		slices.SortStableFunc(todo[from:], func(a, b equipment) int { return cmp.Compare(a.name, b.name) })
	}
	if len(todo) == 0 {
		return false
	}
	s.equip(todo, all)
	return true
}

// loses has the connection in use lose what is not the client's. What is set on it stays,
// of which not all may be known.
func (s *Session) loses(names []string) {
	todo := make([]equipment, len(names))
	for i, n := range names {
		todo[i].name = n
	}
	s.equip(todo, true)
	s.equipping.drops = true
}

// needs says what of the client's statements the request at the head needs: what it
// names, or all that is prepared with SQL, with nothing beside that is another's.
func (s *Session) needs(typ byte, msg []byte) (us []use, all bool) {
	if !simple(typ) {
		return nil, s.at == PrimarySlot // who knows what is still to come
	}
	v := &s.verdict
	text, ok := wire.QueryText(msg)
	l, isLocal := s.localOf(text)
	switch {
	case typ != wire.Query || !ok:
		return nil, true
	case isLocal:
		return []use{{toDeallocate, l.name}}, false
	case v.Detail != nil && len(v.Detail.Parts) == 1 && (executesSQL(v) != nil || prepares(v) != nil):
		return usesIn(v), false
	case v.Kind == verdict.Read:
		return nil, false
	}
	cmds, once := s.queried(text, *v)
	all = v.Fingerprint == 0 || unfollowed(once, cmds)&(verdict.Session|verdict.Unproven) != 0 || mentions(text) || s.strays(cmds)
	return s.usesOf(text, v), all
}

// describesSQL reports whether a whole Describe is of a statement prepared with SQL.
func (s *Session) describesSQL(msg []byte) bool {
	kind, name, ok := splitTarget(msg)
	if !ok || kind != 'S' || !s.sql {
		return false
	}
	st := s.statement(name)
	return st != nil && st.sql
}

// lacking gives what is to be done so that a name in a text stands for what it is to the
// client, as far as that matters: to whoever does not execute it, whether it is taken.
func (s *Session) lacking(u use) (todo []equipment) {
	st, t := s.named[u.name], s.held[s.at].statements
	_, there := t.sql[u.name]
	switch {
	case st == nil && u.verb != toPrepare && t.held[u.name] != nil:
		return []equipment{{u.name, nil}} // by a name that the client did not give
	case st == nil:
	case st.raw && !st.sql:
		return nil // where it is, it is
	case u.verb != toExecute && there:
		return nil
	case u.verb != toExecute:
		st = taking(u.name, st)
	case st.sql:
	case st.local.kind == notLocal:
		s.lives(st)
	default:
		st = nil // the router's own statements are not for EXECUTE
	}
	if there && (st == nil || !s.has(st)) {
		todo = append(todo, equipment{u.name, nil})
	}
	if st != nil && !s.has(st) {
		todo = append(todo, equipment{u.name, st})
	}
	return todo
}

// shield begins and ends what must not fail the client's transaction. PREPARE is not
// undone with it.
const (
	shield   = "SAVEPOINT " + serverPrefix + "shield"
	unshield = "ROLLBACK TO SAVEPOINT " + serverPrefix + "shield; RELEASE SAVEPOINT " + serverPrefix + "shield"
)

// equip sends what is to be done.
func (s *Session) equip(todo []equipment, all bool) {
	s.enter(Applying)
	s.held[s.at].statements.dropUnnamed()
	s.equipping = equipping{all: all, from: s.origin()}
	from := len(s.built)
	for _, e := range todo {
		if e.st == nil {
			s.step(e, "DEALLOCATE "+quotedName(e.name))
			continue
		}
		shielded := all && s.inTransaction()
		if shielded {
			s.step(equipment{}, shield)
		}
		if e.st.sql {
			s.step(e, string(e.st.body[:e.st.text]))
		} else {
			s.built = appendParse(s.built, e.name, e.st.bodyThere())
			s.built = append(s.built, wire.Sync, 0, 0, 0, 4)
			s.equipping.steps = append(s.equipping.steps, e)
		}
		if shielded {
			s.step(equipment{}, unshield)
		}
	}
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
}

// step adds a simple query.
func (s *Session) step(e equipment, sql string) {
	s.equipping.steps = append(s.equipping.steps, e)
	s.built = wire.AppendQuery(s.built, sql)
}

// quotedName writes a name as SQL has it.
func quotedName(name string) string {
	return string(append(append([]byte{'"'}, bytes.ReplaceAll([]byte(name), []byte{'"'}, []byte(`""`))...), '"'))
}
