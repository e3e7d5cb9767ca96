package settings

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Hash identifies what a List gives to connections. The zero value is that of an
// empty one: the parameters that a connection begins with.
type Hash [16]byte

// How much a session may have set and still be lent any connection.
const (
	maxSettings = 64
	maxBytes    = 8 << 10
)

// List is what has been set, in the order in which it was. The zero value is an
// empty list. Its copies share nothing that changes.
type List struct {
	settings []Change
	hash     Hash
}

// Hash identifies the list.
func (l *List) Hash() Hash { return l.hash }

// Settings gives what is set. It is shared; nobody changes it.
func (l *List) Settings() []Change { return l.settings }

// Of makes the list of settings that were those of a List before.
func Of(settings []Change) List {
	l := List{settings: slices.Clone(settings)}
	l.hash = digest(l.settings)
	return l
}

// Has reports whether the parameter is set.
func (l *List) Has(name string) bool { return l.find(name) >= 0 }

func (l *List) find(name string) int {
	return slices.IndexFunc(l.settings, func(c Change) bool { return c.Name == name })
}

// with gives the list after a change. ok is false if it cannot be given to a
// connection that has not seen how it came about.
func (l *List) with(c Change) (out List, ok bool) {
	settings := slices.Clone(l.settings)
	ok = true
	if c.Name == "" {
		settings = slices.DeleteFunc(settings, func(s Change) bool { return s.Name != role })
	} else if i := l.find(c.Name); i >= 0 {
		// What was set with the rights of a role cannot be set again without them.
		ok = c.Name != role || !slices.ContainsFunc(settings[i+1:], func(s Change) bool { return !free(s.Name) })
		settings = slices.DeleteFunc(settings, c.replaces)
	}
	if c.SQL != "" {
		settings = append(settings, c)
	}
	size := 0
	for _, s := range settings {
		size += len(s.SQL)
	}
	return List{settings, digest(settings)}, ok && len(settings) <= maxSettings && size <= maxBytes
}

// After gives the list after a text that does nothing but give up a setting, or all of them:
// RESET, SET TO DEFAULT, SET ROLE NONE. ok is false for any other.
func (l *List) After(text []byte) (out List, ok bool) {
	cs, ok := Parse(text)
	if !ok || len(cs) != 1 || cs[0].Kind != Set || len(cs[0].Changes) != 1 {
		return List{}, false
	}
	c := cs[0].Changes[0]
	if c.Name == role && strings.EqualFold(c.SQL, "role none") {
		c.SQL = ""
	}
	out, _ = l.with(c)
	return out, c.SQL == ""
}

// replaces reports whether nothing is left of a setting after the change. A value of
// DateStyle may name the style or the order of days and months alone: the other part
// stays as it was ("Date/Time Output").
func (c *Change) replaces(s Change) bool {
	return s.Name == c.Name && (c.Name != dateStyle || c.SQL == "" || c.SQL == s.SQL)
}

const (
	role             = "role"
	dateStyle        = "datestyle"
	statementTimeout = "statement_timeout"
)

// digest hashes the settings that servers get to see, in whatever order they were
// made, but for those of one parameter.
func digest(settings []Change) (h Hash) {
	sorted := slices.DeleteFunc(slices.Clone(settings), func(s Change) bool { return IsOwn(s.Name) })
	if len(sorted) == 0 {
		return h
	}
	slices.SortStableFunc(sorted, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	for _, s := range sorted {
		sum.Write([]byte(s.Name + "\x00" + s.SQL + "\x00"))
	}
	copy(h[:], sum.Sum(nil))
	return h
}

// AtParse identifies those of the settings on which it may depend what a statement
// means when it is parsed: where names lead, and what constants are taken for.
func (l *List) AtParse() Hash {
	if len(l.settings) == 0 {
		return Hash{}
	}
	return digest(slices.DeleteFunc(slices.Clone(l.settings), func(s Change) bool {
		return later(s.Name)
	}))
}

// later reports whether a parameter matters only when a statement runs.
func later(name string) bool { return !verdict.AtParse(name) }

// AppendSQL appends the statements, separated by semicolons, that give the
// settings to a connection that has any others, the router's own left out. The time limit for statements is the
// last of them: it is not meant for these.
func (l *List) AppendSQL(b []byte) []byte {
	b = append(b, "RESET ROLE;RESET ALL"...)
	limit := ""
	for _, s := range l.settings {
		switch {
		case IsOwn(s.Name):
			continue
		case s.Name == statementTimeout:
			limit = s.SQL
			continue
		}
		b = appendSet(b, s.SQL)
	}
	if limit != "" {
		b = appendSet(b, limit)
	}
	return b
}

func appendSet(b []byte, sql string) []byte {
	b = append(b, "\n;SET "...) // behind a comment, too
	return append(b, sql...)
}
