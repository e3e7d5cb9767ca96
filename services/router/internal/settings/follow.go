package settings

// Follow reads a statement string of which some statements do what Parse knows, and
// others do not: those are of the kind Other. There is a command for each statement, or
// none at all if all of them are Others: then no statement begins or ends a transaction,
// or does something about a savepoint, unless it runs code that does. ok is false for a
// text that is too long or is not one that can be read.
func Follow(text []byte) (cs []Command, ok bool) {
	if len(text) > MaxText {
		return nil, false
	}
	p := newParser(text)
	known := false
	for p.statement() {
		c, ok := p.command()
		if !ok {
			c = Command{Kind: Other}
		}
		known = known || ok
		cs = append(cs, c)
	}
	switch {
	case p.err != nil:
		return nil, false
	case !known:
		return []Command{}, true
	}
	return cs, true
}

// Known reports whether it is known of each command what it does to settings.
func Known(cs []Command) bool {
	for i := range cs {
		if cs[i].Kind == Other {
			return false
		}
	}
	return len(cs) > 0
}
