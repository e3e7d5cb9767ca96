package settings

import (
	"slices"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// What is set until the end of the transaction is never given to another connection, so that
// its value need not be known: only that it is not, where it matters to what is parsed until
// then, or makes of tables temporary ones.

const (
	// unsure is the value of a parameter in the place of one that is not known.
	unsure = "?"
	// anything is the name of one in the place of one that is not known.
	anything = "*"
)

// Locally gives what a statement does that sets parameters of these names until the end of
// its transaction, to values that are not known, and perhaps does something else. An empty
// name is one that is not known. ok is false if something of it may stay.
func Locally(names []string) (c Command, ok bool) {
	c.Besides = true
	for _, name := range names {
		switch {
		case verdict.Stays(name):
			return Command{}, false
		case !verdict.AtParse(name):
			continue
		case name == "":
			name = anything
		}
		c.Kind = Local
		c.Changes = append(c.Changes, Change{Name: name, SQL: unsure})
	}
	return c, true
}

// Doubted gives the command in the place of one of which not all of several changes may have been
// made, until the end of the transaction.
func (c *Command) Doubted() (out Command, ok bool) {
	if c.Kind != Local || len(c.Changes) < 2 {
		return Command{}, false
	}
	var names []string
	for i := range c.Changes {
		names = append(names, c.Changes[i].Name)
	}
	return Locally(names)
}

// Roams reports whether a table that is made behind one of the commands may be a temporary
// one, by a search_path that is not known.
func Roams(cs []Command) bool {
	for i := range cs {
		if slices.ContainsFunc(cs[i].Changes, roams) {
			return true
		}
	}
	return false
}

func roams(c Change) bool {
	return c.SQL == unsure && (c.Name == searchPath || c.Name == anything)
}

// Unsure reports whether it is not known what is set that matters when statements are parsed,
// and whether a table that is made may be a temporary one.
func (t *Tracker) Unsure() (parsing, roaming bool) {
	var names []string
	for i := range t.levels {
		for _, c := range t.levels[i].changes {
			if c.SQL == unsure {
				names = append(names, c.Name)
			} else if len(names) > 0 && c.Name != "" {
				names = slices.DeleteFunc(names, func(n string) bool { return n == c.Name })
			}
		}
	}
	return len(names) > 0, slices.ContainsFunc(names, func(n string) bool { return roams(Change{n, unsure}) })
}

// Makes reports whether a text may make something where search_path says: it has the word
// CREATE, or INTO that is not an INSERT's or a MERGE's. One that cannot be taken apart may.
func Makes(text []byte) bool {
	p := newParser(text)
	for p.statement() {
		for i, t := range p.toks {
			switch {
			case p.isWord(t, "create"):
				return true
			case p.isWord(t, "into") && (i == 0 || !p.isWord(p.toks[i-1], "insert") && !p.isWord(p.toks[i-1], "merge")):
				return true
			}
		}
	}
	return p.err != nil
}
