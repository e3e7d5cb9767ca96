package session

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// portal is what the session remembers of a portal: the statement that it runs,
// nil if there is none, what that does to settings, and whether it has been executed.
type portal struct {
	name []byte
	st   *Statement
	cmds []settings.Command
	ran  bool
	// depth is how many savepoints the transaction had when it was bound, of those that are
	// still there: ROLLBACK TO ends what was bound behind one.
	depth int
}

// is reports whether the portal has that name and is there.
func (p *portal) is(name []byte) bool { return p.st != nil && bytes.Equal(p.name, name) }

func (p *portal) set(name []byte, st *Statement, cmds []settings.Command) {
	p.name, p.st, p.cmds, p.ran = append(p.name[:0], name...), st, cmds, false
}

// portals are those that the router executes itself, in the order in which they were
// bound. No two have one name.
type portals []portal

// maxPortals is how many of them a client may have in one transaction.
const maxPortals = 256

// find gives the portal of a name, nil if there is none. It is valid until the next
// change.
func (ps portals) find(name []byte) *portal {
	for i := range ps {
		if bytes.Equal(ps[i].name, name) {
			return &ps[i]
		}
	}
	return nil
}

// close removes the portal of a name, if there is one.
func (ps *portals) close(name []byte) {
	for i := range *ps {
		if bytes.Equal((*ps)[i].name, name) {
			*ps = append((*ps)[:i:i], (*ps)[i+1:]...)
			return
		}
	}
}

// bind adds one in the place of another of that name, bound at the depth.
func (ps *portals) bind(name []byte, st *Statement, depth int) {
	ps.close(name)
	*ps = append(*ps, portal{name: bytes.Clone(name), st: st, depth: depth})
}

// rollBack removes those that were bound at the depth or deeper.
func (ps *portals) rollBack(depth int) {
	*ps = slices.DeleteFunc(*ps, func(p portal) bool { return p.depth >= depth })
}

// release has what was bound deeper belong to the depth.
func (ps portals) release(depth int) {
	for i := range ps {
		ps[i].depth = min(ps[i].depth, depth)
	}
}

// unbind removes the one that was bound last to a statement.
func (ps *portals) unbind(st *Statement) {
	for i := len(*ps) - 1; i >= 0; i-- {
		if (*ps)[i].st == st {
			*ps = append((*ps)[:i:i], (*ps)[i+1:]...)
			return
		}
	}
}

// notRun notes that the one was not executed that was bound last to a statement, of those
// that seemed to be.
func (ps portals) notRun(st *Statement) {
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].st == st && ps[i].ran {
			ps[i].ran = false
			return
		}
	}
}

// run reports whether one of them runs the statement.
func (ps portals) run(st *Statement) bool {
	for i := range ps {
		if ps[i].st == st {
			return true
		}
	}
	return false
}

// portion is how much of what a SHOW gives an Execute asks for: its only row, and whether
// that is all ("Message Flow: Extended Query").
type portion uint8

const (
	// wholeRow: the row and the end.
	wholeRow portion = iota
	// limitedRow: the row, and it is not known whether more would come.
	limitedRow
	// noRow: the end, the row having been given.
	noRow
)

// next notes that the portal is executed, with a limit for its rows, 0 for none.
func (p *portal) next(limit uint32) portion {
	switch {
	case p.ran:
		return noRow
	case limit == 1:
		p.ran = true
		return limitedRow
	}
	p.ran = true
	return wholeRow
}

// nameTaken is the server's error for a portal that is bound under a name that another
// one has. The unnamed portal is replaced.
func nameTaken(name []byte) *Problem {
	return &Problem{Code: "42P03", Message: "cursor " + quoted(string(name)) + " already exists"}
}

// checkBind gives the error of binding a portal that the router executes itself.
func (s *Session) checkBind(name []byte) *Problem {
	switch {
	case len(name) > 0 && (s.here.find(name) != nil || s.latest.is(name)):
		return nameTaken(name)
	case len(s.here) >= maxPortals:
		return &Problem{
			Code: "54000", Message: fmt.Sprintf("more than %d portals of statements that pgpilot executes itself are open", maxPortals),
			Hint: "Close portals that are no longer needed, or end the transaction.",
		}
	}
	return nil
}

// binds notes which statement a portal runs, nil for one that is not known, and what it
// does to settings: describing it tells of the statement's rows.
func (s *Session) binds(name []byte, st *Statement, cmds []settings.Command) {
	s.here.close(name)
	s.block.portal = s.block.portal && len(name) > 0
	known := st != nil && len(name) <= maxName
	if l := &s.latest; !known || !st.isHere() || l.is(name) { // otherwise the server's is still there
		if l.st != nil && len(l.cmds) > 0 && !l.ran {
			s.astray() // when it runs, nobody will know what it was
		}
		s.forgetful = s.forgetful || l.st != nil && l.st.forgets
		l.st = nil
	}
	switch {
	case !known:
	case st.isHere():
		s.here.bind(name, st, s.set.Depth())
	default:
		s.latest.set(name, st, cmds)
	}
}

// notRun notes that a portal has not been executed: its Execute has been discarded.
func (s *Session) notRun(o *owed) {
	switch l := &s.latest; {
	case o.how == made && o.st.local.kind != ownParameter:
		s.here.notRun(o.st) // the name is that of what it removes
	case o.how == made && o.part != noRow:
		if p := s.here.find([]byte(o.name)); p != nil && p.st == o.st {
			p.ran = false
		}
	case l.st != nil && l.ran && len(o.cmds) > 0 && len(l.cmds) > 0 && &o.cmds[0] == &l.cmds[0]:
		l.ran = false
	}
}

// decidesPortals reports whether it depends on a command how long portals live: it ends a
// transaction, or is about a savepoint.
func decidesPortals(c settings.Command) bool {
	switch c.Kind {
	case settings.Commit, settings.Rollback, settings.Prepare, settings.Savepoint, settings.Release, settings.RollbackTo:
		return true
	}
	return false
}

// outlived follows what a command has done to the portals that the router executes itself,
// when the settings have followed it. Of a savepoint that nobody has seen nothing is known.
func (s *Session) outlived(c *settings.Command) {
	switch depth := s.set.Depth(); c.Kind {
	case settings.RollbackTo:
		if depth > 0 {
			s.here.rollBack(depth)
		}
	case settings.Release:
		s.here.release(depth)
	case settings.Commit, settings.Rollback, settings.Prepare:
		s.here = nil // also where another transaction follows at once
	}
}

// awaitsPortals has a message about such a portal wait while such a command is in front of
// it: what is bound behind it is not what it ends.
func (s *Session) awaitsPortals(run *forwarding) bool {
	if !slices.ContainsFunc(s.owed.all(), func(o owed) bool { return slices.ContainsFunc(o.cmds, decidesPortals) }) {
		return false
	}
	s.awaitAnswers(run)
	return true
}

// endPortals forgets the portals: they end with their transaction.
func (s *Session) endPortals() { s.here, s.latest.st, s.forgetful = nil, nil, false }

// endUnnamedPortal forgets the unnamed portal: a simple query ends it.
func (s *Session) endUnnamedPortal() {
	s.block.portal = false
	s.here.close(nil)
	if s.latest.is(nil) {
		s.latest.st = nil
	}
}
