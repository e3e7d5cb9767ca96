package session

import (
	"bytes"
	"maps"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// What the client has prepared changes when a message that changes it is sent, so
// that what follows is translated as it will be meant; if the server then fails,
// the changes of the messages that it discards are taken back. A message whose
// meaning depends on whether an earlier sequence fails waits for its end.

// statement gives what the client has prepared under a name; nil for nothing.
func (s *Session) statement(name []byte) *Statement {
	if len(name) == 0 {
		return s.unnamed
	}
	return s.named[string(name)]
}

// repeats reports whether the client parses a statement again that is the unnamed one already,
// and of which nothing is to be known but the verdict, that it only reads, which holds still.
// name and body are those of the Parse.
func (s *Session) repeats(name, body []byte) bool {
	st := s.unnamed
	return st != nil && len(name) == 0 && st.hintless && st.verdict.OnlyReads() && bytes.Equal(st.body, body) &&
		st.text <= s.env.Settings().MaxText && !s.outdated(st)
}

// define notes a statement under the client's name; nil removes it.
func (s *Session) define(name string, st *Statement) {
	switch {
	case name == "":
		s.unnamed = st
	case st == nil:
		delete(s.named, name)
	default:
		if s.named == nil {
			s.named = map[string]*Statement{}
		}
		s.named[name] = st
	}
}

// takeBack undoes what messages did to the client's statements that have not been
// executed. failed says that the first of them has been, and has failed.
func (s *Session) takeBack(dropped []owed, failed bool) {
	held := s.held[s.at].statements // nil if the connection is gone
	for i := len(dropped) - 1; i >= 0; i-- {
		o := &dropped[i]
		own := o.typ == wire.Parse && o.how != made && o.st != nil
		more := o.also()
		ran := failed && i == 0
		switch {
		case more.all != nil:
			s.named = more.all
		case o.undoes && (own || more.instead != nil) && o.name == "" && ran:
			s.putBack("", nil) // Parse begins by removing it
		case o.undoes:
			s.putBack(o.name, o.was)
		}
		switch {
		case o.typ == wire.Bind && o.how == made:
			s.here.unbind(o.st)
		case o.typ == wire.Bind && o.st != nil && s.latest.st == o.st:
			s.latest.st = nil // there is no such portal
		case o.typ == wire.Execute && !ran:
			s.notRun(o)
		}
		switch {
		case held == nil:
		case more.had != nil:
			held.prepare(more.gives, *more.had)
		case more.gives != "":
			delete(held.sql, more.gives)
		case own:
			held.remove(o.server)
		case o.typ == wire.Close && o.how == hide && o.name != "":
			held.restore(o.name)
		}
		*o = owed{}
	}
}

// putBack has the name stand for what it stood for, unless a message behind those
// taken back has changed it since.
func (s *Session) putBack(name string, was *Statement) {
	later := s.owed.all()
	for i := range later {
		if o := &later[i]; o.undoes && o.also().all == nil && o.name == name {
			o.was = was
			return
		}
	}
	s.define(name, was)
}

// forgotten notes that the server has removed all prepared statements: those that it had.
// What it has been sent behind that, and has yet to answer, is there when that is done.
func (s *Session) forgotten() {
	behind := s.owed.all()
	var later map[*Statement]bool
	for i := range behind {
		if o := &behind[i]; o.typ == wire.Parse && o.st != nil {
			if later == nil {
				later = map[*Statement]bool{}
			}
			later[o.st] = true
		}
	}
	gone := func(_ string, st *Statement) bool { return !later[st] }
	maps.DeleteFunc(s.named, gone)
	for i := range behind {
		o := &behind[i]
		maps.DeleteFunc(o.also().all, gone)
		if o.undoes && o.name != "" && !later[o.was] {
			o.was = nil
		}
	}
	s.held[s.at].statements.clearBefore(behind)
}

// recycle keeps an unnamed statement that has been replaced for the next one.
func (s *Session) recycle(st *Statement) {
	if st == nil || st == s.unnamed || cap(st.body) > roomy {
		return
	}
	if s.latest.st == st || s.here.run(st) {
		return // its portal may be executed yet
	}
	s.spare = st
}

// effects notes what a statement that is about to be sent may do, before its
// first byte is forwarded. cmds is what it does to settings, as far as that is
// followed, text is its own, nil if nobody looks into it.
func (s *Session) effects(v verdict.Verdict, cmds []settings.Command, text []byte) {
	h := &s.held[s.at]
	if s.escapes {
		v = distrusted(v, s.at)
	}
	if v.Kind != verdict.Read && !settings.Only(cmds) {
		s.write(h)
	}
	executed := s.executed(&v, text, maxNested)
	v.Effects = s.ownEffects(&v) | executed
	v.Effects = unfollowed(v, cmds)
	if !settings.Known(cmds) {
		v.Effects |= executed
	}
	s.roams = s.roams || settings.Roams(cmds)
	if s.makesTemporary(v, text) {
		v.Effects |= verdict.Session
	}
	if len(cmds) > 0 {
		s.sweeps = s.sweeps || s.set.Open()
		s.sets(cmds)
		if settings.Listens(cmds) {
			s.bind(pinListen)
			h.used = true
		}
		for i := range cmds {
			if cmds[i].Kind == settings.Set && s.strays(cmds[i:i+1]) {
				s.astray()
			}
		}
	}
	if s.set.Begun() && s.undisclosed(v, cmds) {
		s.set.Lose()
		s.changed() // what was local to the transaction as well
	}
	if v.Effects.Has(verdict.Session) {
		s.bind(pinState)
	}
	if v.Effects&(verdict.Session|verdict.Unproven) != 0 {
		h.used = true
		s.epoch++
		s.dim = true
	}
	h.indelible = h.indelible || v.Effects.Has(verdict.Indelible) ||
		v.Effects&(verdict.Session|verdict.Unproven) != 0 && namesSeed(text)
	if v.Effects.Has(verdict.Sequences) {
		h.stepped, s.stepped = true, true
	}
	s.opaque = s.opaque || v.Fingerprint == 0 || v.Effects.Has(verdict.Transaction)
	s.sweeps = s.sweeps || v.Effects&(verdict.Session|verdict.ResetsSession) != 0
}

// namesSeed reports whether a text has the name of the parameter by which random() goes on for a
// constant, as in a call of set_config in the middle of a string of statements.
func namesSeed(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\'')
		if i < 0 || i+len("'seed'") > len(text) {
			return false
		}
		if text = text[i+1:]; text[len("seed")] == '\'' && verdict.Seed(string(text[:len("seed")])) {
			return true
		}
	}
}

// makesTemporary reports whether a statement may make a temporary object although nothing in it
// says so, by a search_path that leads to them: the one that connections begin with, or one that
// is set until the end of the transaction.
func (s *Session) makesTemporary(v verdict.Verdict, text []byte) bool {
	if v.Kind == verdict.Read {
		return false
	}
	_, roams := s.set.Unsure()
	switch always := s.env.Beginnings().Temporary; {
	case always && v.Effects.Has(verdict.Unproven):
		return true
	case always, roams, s.roams:
		return settings.Makes(text) || s.executesMaking(text)
	}
	return false
}

// executesMaking reports whether a text has an EXECUTE of a statement that may make something where
// search_path says: PREPARE takes none, but Parse does. One that is not known may.
func (s *Session) executesMaking(text []byte) bool {
	for _, name := range namesIn(s.dialect().uses(text), toExecute) {
		if st := s.named[name]; st == nil || len(st.body) == 0 || settings.Makes(st.body[:st.text]) {
			return true
		}
	}
	return false
}

// sets notes that commands are about to run which may set something: what is parsed behind them
// is not what it would have been.
func (s *Session) sets(cmds []settings.Command) {
	if settings.Sets(cmds) {
		s.sweeps = true
		s.epoch++
	}
	s.roams = s.roams || settings.Roams(cmds)
}

// distrusted is the verdict on a text of which the server makes something else than whoever has
// judged it. On a replica it cannot write all the same.
func distrusted(v verdict.Verdict, on Slot) verdict.Verdict {
	out := verdict.Unclassified()
	out.Effects |= v.Effects
	if on == ReplicaSlot {
		out.Kind = v.Kind
	}
	return out
}
