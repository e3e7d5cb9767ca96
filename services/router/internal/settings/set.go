package settings

import (
	"bytes"
	"strings"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// set reads what follows SET.
func (p *parser) set() (Command, bool) {
	kind := Set
	switch {
	case p.word("session", "characteristics", "as", "transaction"):
		return p.characteristics()
	case p.word("session", "authorization"), p.word("local", "session"):
		return Command{}, false
	case p.word("transaction"), p.word("constraints"):
		return Command{}, true // they end with the transaction
	case p.followed("session"):
	case p.followed("local"):
		kind = Local
	}
	c, ok := p.assignment()
	switch c.Name {
	case "transaction_isolation", "transaction_read_only", "transaction_deferrable":
		return Command{}, ok // what SET TRANSACTION sets
	}
	return Command{Kind: kind, Changes: []Change{c}}, ok
}

// followed reads the word unless it is a parameter's own name.
func (p *parser) followed(word string) bool {
	if len(p.toks) < 2 || p.toks[1].Kind != sqltoken.Word && p.toks[1].Kind != sqltoken.QuotedIdent {
		return false
	}
	if next := lower(string(p.source(p.toks[1]))); next == "to" {
		return false
	}
	return p.word(word)
}

// assignment reads one parameter and its value, in any of the forms of SET.
func (p *parser) assignment() (Change, bool) {
	if len(p.toks) == 0 {
		return Change{}, false
	}
	from := p.toks[0].Start
	sql := func() string { return p.written(from) }
	switch {
	case p.word("time", "zone"):
		if len(p.toks) == 0 {
			return Change{}, false
		}
		if len(p.toks) == 1 && (p.peek("default") || p.peek("local")) {
			return Change{Name: "timezone"}, true
		}
		return Change{Name: "timezone", SQL: sql()}, true
	case len(p.toks) == 2 && p.toks[1].Kind == sqltoken.String && p.word("schema"):
		return p.checked(Change{Name: "search_path", SQL: sql()})
	case len(p.toks) == 3 && p.word("xml", "option"):
		return Change{Name: "xmloption", SQL: sql()}, true
	case len(p.toks) == 2 && p.word("role"):
		return Change{Name: "role", SQL: sql()}, true
	}
	name, ok := p.name()
	if !ok || !p.symbol("=") && !p.word("to") || len(p.toks) == 0 {
		return Change{}, false
	}
	if len(p.toks) == 1 && p.peek("default") {
		return p.checked(Change{Name: name})
	}
	return p.checked(Change{Name: name, SQL: sql()})
}

// written gives what is left of the statement, from a place in the text on. Strings with
// backslashes are written so that every server reads them alike: on a connection with
// standard_conforming_strings off they might end elsewhere, and what is behind would be read
// as SQL ("String Constants with C-Style Escapes").
func (p *parser) written(from int) string {
	var b []byte
	for _, t := range p.toks {
		if src := p.source(t); t.Kind == sqltoken.String && src[0] == '\'' && bytes.IndexByte(src, '\\') >= 0 {
			if value, ok := p.lexer.AppendString(nil, t); ok {
				b = append(append(b, p.text[from:t.Start]...), quoteString(string(value))...)
				from = t.End
			}
		}
	}
	return string(append(b, p.text[from:p.toks[len(p.toks)-1].End]...))
}

// maxName is how long a name may be that servers do not cut, in bytes (NAMEDATALEN - 1).
const maxName = 63

// name reads a parameter's name: words with dots between. Servers compare them
// without regard to case, whether quoted or not, and cut them when they are long.
func (p *parser) name() (string, bool) {
	var parts []string
	for {
		part, ok := p.identifier()
		if !ok || len(part) > maxName {
			return "", false
		}
		parts = append(parts, lower(part))
		if !p.symbol(".") {
			return strings.Join(parts, "."), true
		}
	}
}

// checked refuses parameters that are not to be set on another connection, and
// gives the others the name they have now.
func (p *parser) checked(c Change) (Change, bool) {
	switch c.Name {
	case "client_encoding", "standard_conforming_strings", "backslash_quote", "session_authorization", "seed", "temp_buffers":
		return c, false
	case "sort_mem":
		c.Name = "work_mem"
	case "vacuum_mem":
		c.Name = "maintenance_work_mem"
	case "search_path":
		return c, plainPath(lower(c.SQL))
	}
	return c, !IsOwn(c.Name)
}

// plainPath reports whether a search_path can be seen to have no schema of
// temporary tables in it, which is another one on every connection.
func plainPath(sql string) bool {
	return !strings.Contains(sql, "pg_temp") && !strings.ContainsAny(strings.ReplaceAll(sql, "$user", ""), "\\&$\n")
}

// Temporary reports whether a search_path, as SHOW gives it, may have what is made be temporary:
// it is made in the first schema that is there and may be used ("Schemas: The Schema Search
// Path"). Only pg_catalog is always there.
func Temporary(path string) bool {
	for name := range strings.SplitSeq(lower(path), ",") {
		switch name = strings.Trim(name, " \""); {
		case strings.HasPrefix(name, "pg_temp"):
			return true
		case name == "pg_catalog":
			return false
		}
	}
	return false
}

// characteristics reads the modes of SET SESSION CHARACTERISTICS AS TRANSACTION,
// which are parameters of their own ("Client Connection Defaults").
func (p *parser) characteristics() (Command, bool) {
	c := Command{Kind: Set}
	add := func(name, value string) {
		c.Changes = append(c.Changes, Change{Name: name, SQL: name + " = '" + value + "'"})
	}
	for len(p.toks) > 0 {
		switch {
		case p.word("isolation", "level", "serializable"):
			add("default_transaction_isolation", "serializable")
		case p.word("isolation", "level", "repeatable", "read"):
			add("default_transaction_isolation", "repeatable read")
		case p.word("isolation", "level", "read", "committed"):
			add("default_transaction_isolation", "read committed")
		case p.word("isolation", "level", "read", "uncommitted"):
			add("default_transaction_isolation", "read uncommitted")
		case p.word("read", "only"):
			add("default_transaction_read_only", "on")
		case p.word("read", "write"):
			add("default_transaction_read_only", "off")
		case p.word("not", "deferrable"):
			add("default_transaction_deferrable", "off")
		case p.word("deferrable"):
			add("default_transaction_deferrable", "on")
		case p.symbol(","):
		default:
			return Command{}, false
		}
	}
	return c, len(c.Changes) > 0
}

// reset reads what follows RESET.
func (p *parser) reset() (Command, bool) {
	switch {
	case len(p.toks) == 1 && p.word("all"):
		return Command{Kind: Set, Changes: []Change{{}}}, true
	case p.word("transaction"):
		return Command{}, true
	case p.word("session", "authorization"):
		return Command{}, false
	case p.word("time", "zone"):
		return Command{Kind: Set, Changes: []Change{{Name: "timezone"}}}, len(p.toks) == 0
	}
	name, ok := p.name()
	if !ok || len(p.toks) > 0 {
		return Command{}, false
	}
	c, ok := p.checked(Change{Name: name})
	return Command{Kind: Set, Changes: []Change{c}}, ok
}
