package session

import (
	"bytes"
	"slices"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// use is what a text does with the name of a prepared statement.
type use struct {
	verb verb
	name string
}

type verb uint8

const (
	// toExecute: what the name stands for is to run.
	toExecute verb = iota
	// toPrepare: it is to be free.
	toPrepare
	// toDeallocate: it is to stand for something.
	toDeallocate
)

// mentions reports whether a text may name statements otherwise than by being a single
// PREPARE, EXECUTE or DEALLOCATE.
func mentions(text []byte) bool {
	text = bytes.ToLower(text)
	return bytes.Contains(text, []byte("execute")) || bytes.Contains(text, []byte("prepare")) || bytes.Contains(text, []byte("deallocate"))
}

// uses gives what a text does with names, in order; nothing of a text that no server can read.
// The name is empty that is not understood.
func (as dialect) uses(text []byte) (us []use) {
	if !mentions(text) {
		return nil
	}
	lexer := sqltoken.NewLexer(text, as.major)
	toks := make([]sqltoken.Token, 0, 4)
	for {
		t, err := lexer.Next()
		switch {
		case err != nil:
			return nil // as the server says
		case t.IsComment():
		case t.Kind != sqltoken.EOF && !ends(text, t):
			toks = append(toks, t)
		default:
			if u, ok := as.use(text, toks); ok {
				us = append(us, u)
			}
			if toks = toks[:0]; t.Kind == sqltoken.EOF {
				return us
			}
		}
	}
}

// use reads a statement, of which these are the tokens.
func (as dialect) use(text []byte, toks []sqltoken.Token) (u use, ok bool) {
	if len(toks) < 2 {
		return use{}, false
	}
	switch first := toks[0]; {
	case isWord(text, first, "deallocate"):
		l, _ := as.local(text, toks)
		return use{toDeallocate, l.name}, l.kind != deallocateAll
	case isWord(text, first, "prepare"):
		u.verb = toPrepare
		u.name, _ = as.name(text, toks[1])
		return u, len(toks) > 2 && toks[2].Kind != sqltoken.String // PREPARE TRANSACTION
	case isWord(text, first, "execute"), isWord(text, first, "explain"), isWord(text, first, "create"):
		i := slices.IndexFunc(toks, func(t sqltoken.Token) bool { return isWord(text, t, "execute") })
		if i < 0 || i+1 == len(toks) {
			return use{}, false
		}
		u.name, _ = as.name(text, toks[i+1])
		return u, true
	}
	return use{}, false
}

// namesIn gives the names in the uses by a verb, in order, empty where they are not understood.
func namesIn(us []use, by verb) (names []string) {
	for _, u := range us {
		if u.verb == by {
			names = append(names, u.name)
		}
	}
	return names
}

// firsts gives the first use of each name. It says what a server must have under the name: behind
// DEALLOCATE that is gone, and behind PREPARE the text has failed.
func firsts(us []use) (out []use) {
	for _, u := range us {
		if u.name != "" && !used(out, u.name) {
			out = append(out, u)
		}
	}
	return out
}

// usesOf gives the first use of each name in a text, of which the verdict knows some.
func (s *Session) usesOf(text []byte, v *verdict.Verdict) []use {
	var us []use
	if len(text) <= s.env.Settings().MaxText && s.legible(text) {
		us = s.dialect().uses(text)
	}
	return firsts(append(us, usesIn(v)...))
}

// usesOfParsed gives what a text of the extended protocol does with names: as far as its verdict
// knows that, unless it may be about names that are servers', or of the kind of EXPLAIN EXECUTE.
func (s *Session) usesOfParsed(text []byte, v *verdict.Verdict) []use {
	us := usesIn(v)
	if v.Kind != verdict.Read && (mentionsServers(text) || v.Detail == nil && (v.Fingerprint == 0 || mentionsExecute(text))) && s.legible(text) {
		us = append(us, s.dialect().uses(text)...)
	}
	return us
}

// maxNested is how deep an EXECUTE of an EXECUTE is followed.
const maxNested = 4

// executed gives the effects of the prepared statements that a text runs, which its own verdict
// knows only by their names.
func (s *Session) executed(v *verdict.Verdict, text []byte, nested int) (out verdict.Effect) {
	if v.Kind == verdict.Read || len(s.named) == 0 {
		return 0
	}
	us := usesIn(v)
	if len(text) <= s.env.Settings().MaxText && mentionsExecute(text) && s.legible(text) {
		us = append(us, s.dialect().uses(text)...)
	}
	for _, u := range us {
		st := s.named[u.name]
		switch {
		case u.verb != toExecute || st == nil || st.local.kind != notLocal:
		case nested == 0:
			out |= unlooked().Effects
		case st.sql: // which is no EXECUTE
			out |= st.verdict.Effects
		default:
			out |= st.verdict.Effects | s.executed(&st.verdict, st.looked(), nested-1)
		}
	}
	return out
}

// ownEffects gives a text's effects without those that it has only because it is not known to a
// classifier what it executes, if that is known here.
func (s *Session) ownEffects(v *verdict.Verdict) verdict.Effect {
	if v.Detail == nil || s.held[PrimarySlot].used || s.pins&pinState != 0 { // see resolve
		return v.Effects
	}
	var out verdict.Effect
	found := false
	for i := range v.Detail.Parts {
		p := &v.Detail.Parts[i]
		if p.Execute == nil {
			out |= p.Effects
			continue
		}
		st := s.named[p.Execute.Name]
		if st == nil || st.raw && !st.sql || st.local.kind != notLocal || st.verdict.Fingerprint == 0 || s.outdated(st) || executesSQL(&st.verdict) != nil {
			return v.Effects
		}
		out |= p.Execute.Effects
		found = true
	}
	if !found {
		return v.Effects
	}
	return out
}

// usesInDoubt reports whether a sequence before the open one decides what names in a text
// stand for.
func (s *Session) usesInDoubt(text []byte) bool {
	return s.owed.unsettled(namedScope) && s.legible(text) && len(s.dialect().uses(text)) > 0
}

// usesParsed reports whether the simple query at the head has what came with Parse run by
// EXPLAIN EXECUTE or its like, of which a verdict says nothing, or does anything with its name
// where there is no verdict.
func (s *Session) usesParsed(typ byte, msg []byte) bool {
	if typ != wire.Query || len(s.named) == 0 || s.verdict.Kind == verdict.Read {
		return false
	}
	text, ok := wire.QueryText(msg)
	if !ok || s.verdict.Fingerprint != 0 && !mentionsExecute(text) {
		return false
	}
	return slices.ContainsFunc(s.usesOf(text, &s.verdict), func(u use) bool { return s.named[u.name] != nil })
}

// mentionsExecute reports whether a text may have the word in it. It looks for the rarest of
// its letters, so that a long text costs little.
func mentionsExecute(text []byte) bool {
	const word, x = "execute", 1
	for at := x; at < len(text); at++ {
		i := bytes.IndexAny(text[at:], "xX")
		if i < 0 {
			return false
		}
		at += i
		if end := at - x + len(word); end <= len(text) && bytes.EqualFold(text[at-x:end], []byte(word)) {
			return true
		}
	}
	return false
}

// mentionsServers reports whether a text may have a name in it that servers know a statement of
// the extended protocol by.
func mentionsServers(text []byte) bool {
	for at := 0; ; at++ {
		i := bytes.IndexByte(text[at:], '_')
		if i < 0 {
			return false
		}
		at += i
		if from := at + 1 - len(serverPrefix); from >= 0 && bytes.EqualFold(text[from:at+1], []byte(serverPrefix)) {
			return true
		}
	}
}

// namesServers reports whether a simple query may.
func namesServers(typ byte, msg []byte) bool {
	text, ok := wire.QueryText(msg)
	return ok && typ == wire.Query && mentionsServers(text)
}

// usesIn gives what a verdict knows of them.
func usesIn(v *verdict.Verdict) (us []use) {
	if v.Detail == nil {
		return nil
	}
	for i := range v.Detail.Parts {
		switch p := &v.Detail.Parts[i]; {
		case p.Execute != nil:
			us = append(us, use{toExecute, p.Execute.Name})
		case p.Prepare != nil:
			us = append(us, use{toPrepare, p.Prepare.Name})
		}
	}
	return us
}

// used reports whether a name is among those that are used.
func used(us []use, name string) bool {
	return slices.ContainsFunc(us, func(u use) bool { return u.name == name })
}
