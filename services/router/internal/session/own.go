package session

import (
	"strings"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// The router's own parameters (pgpilot.route, …) are set, reset and shown as those of
// a server are, with its rules for transactions, but no server hears of it.

// values gives what holds for the next statement.
func (s *Session) values() override.Values {
	return s.own.Over(s.base())
}

// base gives what holds where the session has set nothing.
func (s *Session) base() override.Values {
	return s.began.Over(s.env.Settings().Values)
}

// startOwn takes the parameters given in the startup message.
func (s *Session) startOwn() {
	for _, p := range s.rec.Own() {
		if _, problem := s.began.Parse(p.Name, p.Value); problem != nil && s.rec.Live == nil {
			s.problem = *ownProblem(problem)
			s.problem.Fatal = true
			return
		}
	}
	if v := s.base(); v.Mode == fence.Bounded && s.freshest(v) == 0 && s.rec.Live == nil && len(s.rec.Own()) > 0 {
		s.problem = unbounded
		s.problem.Fatal = true
	}
}

// ownOf gives what is set of the router's parameters.
func ownOf(list []settings.Change) (set override.Set) {
	for _, c := range list {
		if settings.IsOwn(c.Name) {
			// Checked when it was set. What another version has let pass is not set here.
			_, _ = set.Parse(c.Name, c.SQL)
		}
	}
	return set
}

func ownProblem(p *override.Problem) *Problem {
	return &Problem{Code: p.Code, Message: p.Message, Hint: p.Hint}
}

// ownQuery is a simple query that the router answers itself: statements about its
// parameters, or one of them among others, which is an error, or a DEALLOCATE.
type ownQuery struct {
	// local is a DEALLOCATE, if it is that.
	local      *local
	statements []settings.Own
	problem    *Problem
}

// queryOwn answers a simple query all of whose statements are about the router's
// parameters, and reports whether it is one.
func (s *Session) queryOwn(text []byte) bool {
	os, ok := settings.ParseOwn(text)
	if ok {
		s.answerOwn(&ownQuery{statements: os})
	}
	return ok
}

// answerOwn answers such a query.
func (s *Session) answerOwn(q *ownQuery) {
	s.simpleHere() // as with every simple query
	s.stale = s.inTransaction()
	if s.owed.unsure > 0 {
		// The server may still answer what came before: it is asked for something that
		// tells, and this is answered behind.
		s.behind = q
		o := s.simple(wire.Query)
		o.how = hide
		s.sendOwn(o, "")
		return
	}
	from := len(s.scratch)
	p := s.runQuery(q)
	if p != nil && s.block.here() {
		s.set.Failed()
		s.fallHere()
	}
	if p != nil && s.status == wire.InTransaction {
		if from < len(s.scratch) {
			s.toClient(from)
		}
		// The transaction fails on its server, too.
		o := s.simple(wire.Query)
		o.more = &further{instead: p}
		s.sendOwn(o, "EXECUTE "+noStatement)
		return
	}
	if p != nil {
		s.encodeProblem(p)
	}
	s.scratch = wire.AppendReadyForQuery(s.scratch, s.status)
	s.toClient(from)
}

// ranHere ends a simple query that the router has executed, unless it waits for a server.
func (s *Session) ranHere() {
	if s.phase == Idle {
		s.idle()
	}
}

// answerBehind answers what has waited for the server to have answered what came
// before. The transaction, if there is one, has failed with that.
func (s *Session) answerBehind() {
	from := len(s.scratch)
	if p := s.runQuery(s.behind); p != nil {
		s.encodeProblem(p)
	}
	s.behind = nil
	s.toClient(from)
}

// sendOwn sends the connection in use a query of the router's.
func (s *Session) sendOwn(o owed, text string) {
	s.extended = false
	from := len(s.built)
	s.built = wire.AppendQuery(s.built, text)
	s.do(Action{Op: OpToServer, Slot: s.at, Data: s.built[from:]})
	s.owed.sent(o)
	s.enter(Busy)
}

// runQuery executes the statements of a query and adds what they give, up to the
// first that fails.
func (s *Session) runQuery(q *ownQuery) *Problem {
	switch {
	case q.problem != nil:
		return q.problem
	case q.local != nil && s.status == wire.Failed:
		return &aborted
	case q.local != nil:
		s.define(q.local.name, nil)
		s.scratch = appendTag(s.scratch, q.local)
		return nil
	}
	for i := range q.statements {
		o := &q.statements[i]
		if p := s.checkOwn(o); p != nil {
			if s.status == wire.Idle {
				s.set.Failed()
				s.endOwn()
			}
			return p
		}
		if o.Local && s.status == wire.Idle && len(q.statements) == 1 {
			s.warnOfLocal()
		}
		s.runOne(o)
	}
	s.endOwn()
	return nil
}

// runOne executes a statement of a query and adds what it gives.
func (s *Session) runOne(o *settings.Own) {
	if o.Verb == settings.ShowOwn {
		s.describeShow(o.Name, nil)
		s.rowOfShow(o.Name, nil)
	}
	s.runOwn(o)
	s.scratch = appendComplete(s.scratch, o.Verb.Tag())
}

// checkOwn gives the error of a statement about the router's parameters.
func (s *Session) checkOwn(o *settings.Own) *Problem {
	if s.failing() {
		return &aborted
	}
	if o.Name == override.FenceName {
		return s.checkToken(o)
	}
	if p := checkParameter(o); p != nil {
		return p
	}
	return s.checkBound(o)
}

// checkParameter gives the error of a statement about one that is not the fence.
func checkParameter(o *settings.Own) *Problem {
	var p *override.Problem
	switch {
	case o.Verb == settings.ShowOwn:
		if !override.Known(o.Name) {
			p = override.Unknown(o.Name)
		}
	case o.Resets():
		p = override.Check(o.Name)
	case o.Several:
		if p = override.Check(o.Name); p == nil {
			p = &override.Problem{Code: "22023", Message: "SET " + o.Name + " takes only one argument", Hint: "Give one value, in quotes if there is a comma in it."}
		}
	default:
		var set override.Set
		_, p = set.Parse(o.Name, o.Value)
	}
	if p == nil {
		return nil
	}
	return ownProblem(p)
}

// unbounded is the problem of the mode bounded where nothing says how old a read may be:
// all of them would go to the primary.
var unbounded = Problem{
	Code: "22023", Message: `invalid value for parameter "` + override.FencingName + `": "bounded"`,
	Hint: "Nothing says how old a read may be: SET " + override.FreshnessName + " = '5s' or the like first, or set fencing.bounded_ms in the configuration.",
}

// checkBound gives the error of a statement that asks for the mode bounded without a bound.
func (s *Session) checkBound(o *settings.Own) *Problem {
	if o.Name != override.FencingName || o.Verb != settings.SetOwn || o.Default {
		return nil
	}
	v := s.values()
	if v.Mode, _ = fence.ParseMode(strings.ToLower(o.Value)); v.Mode == fence.Bounded && s.freshest(v) == 0 {
		return &unbounded
	}
	return nil
}

// parsedOwn gives the error that a statement about the router's parameters causes when
// it is parsed.
func (s *Session) parsedOwn(l *local) *Problem {
	if l.shows() && !override.Known(l.own.Name) {
		return s.checkOwn(l.own)
	}
	return nil
}

// runOwn executes a statement that checkOwn has let pass. What is shown is the
// caller's to show.
func (s *Session) runOwn(o *settings.Own) {
	if o.Verb == settings.ShowOwn || o.Name == override.FenceName {
		return
	}
	c := settings.Change{Name: o.Name}
	if !o.Resets() {
		var set override.Set
		c.SQL, _ = set.Parse(o.Name, o.Value)
	}
	kind := settings.Set
	if o.Local {
		kind = settings.Local
	}
	s.set.Ran(&settings.Command{Kind: kind, Changes: []settings.Change{c}}, nil)
	s.changed()
}

// endOwn ends a request that no server has seen: outside of a transaction block what
// it has set stays, if nothing of it has failed.
func (s *Session) endOwn() {
	if s.status != wire.Idle {
		return
	}
	open := s.set.Open()
	s.set.Ready(true)
	if open {
		s.changed()
	}
}
