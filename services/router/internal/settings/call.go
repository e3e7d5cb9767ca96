package settings

import (
	"strings"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Called gives what a statement does that does nothing but call set_config (PostgreSQL
// documentation, "System Administration Functions"), by the changes that its calls make.
// ok is false where one of them is not to be made on another connection, as with Parse,
// and where some of them are local and others are not.
func Called(calls []verdict.Change) (c Command, ok bool) {
	for i := range calls {
		if calls[i].Local != calls[0].Local {
			return Command{}, false
		}
		change, ok := called(&calls[i])
		if !ok {
			return Command{}, false
		}
		if change != (Change{}) {
			c.Changes = append(c.Changes, change)
		}
	}
	if len(c.Changes) > 0 {
		c.Kind = Set
		if calls[0].Local {
			c.Kind = Local
		}
	}
	return c, true
}

// called gives the change that one call makes; none where that ends with its transaction
// in any case.
func called(call *verdict.Change) (c Change, ok bool) {
	name := lower(call.Name)
	switch name {
	case "transaction_isolation", "transaction_read_only", "transaction_deferrable":
		return Change{}, true
	}
	if !call.Local && !repeatable(name, call) {
		return Change{}, false
	}
	c.Name = name
	if !call.Default {
		c.SQL = assignment(name, call.Value)
	}
	p := parser{}
	c, ok = p.checked(c)
	return c, ok && (name != searchPath || plainPath(lower(call.Value)))
}

// searchPath and the others are lists of names: SET takes them name by name, set_config
// as they are written.
const searchPath = "search_path"

var lists = map[string]bool{
	searchPath: true, "temp_tablespaces": true, "local_preload_libraries": true, "session_preload_libraries": true,
}

// assignment writes what follows SET to give the parameter the value.
func assignment(name, value string) string {
	if !lists[name] {
		return quoteName(name) + " TO " + quoteString(value)
	}
	names := strings.Split(value, ", ")
	for i, n := range names {
		names[i] = `"` + strings.Trim(n, `"`) + `"`
	}
	return quoteName(name) + " TO " + strings.Join(names, ", ")
}

// repeatable reports whether SET can do the same as the call, so that also what is shown
// of the parameter is the same: it cuts long names, and writes lists in its own way.
func repeatable(name string, call *verdict.Change) bool {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || len(part) > maxName {
			return false
		}
	}
	return call.Default || !lists[name] || asSetWrites(call.Value)
}

// asSetWrites reports whether a list of names is written as SET writes it. Some that are
// need not be recognized.
func asSetWrites(list string) bool {
	for name := range strings.SplitSeq(list, ", ") {
		if name == `"$user"` {
			continue
		}
		if name == "" || len(name) > maxName || quoted[name] {
			return false
		}
		for i, c := range []byte(name) {
			if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
				return false
			}
		}
	}
	return true
}

// quoteString writes a string as every server reads it, whatever standard_conforming_strings
// is.
func quoteString(value string) string {
	value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
	if strings.IndexByte(value, '\\') < 0 {
		return value
	}
	return "E" + strings.ReplaceAll(value, `\`, `\\`)
}

// quoteName writes a parameter's name, whose parts may be key words.
func quoteName(name string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(name, `"`, `""`), ".", `"."`) + `"`
}

// quoted are the key words that are written in quotes where they are names
// (PostgreSQL documentation, "SQL Key Words": those that are reserved or cannot be
// functions or types).
var quoted = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`all analyse analyze and any array as asc asymmetric authorization between bigint binary bit
		boolean both case cast char character check coalesce collate collation column concurrently constraint create cross
		current_catalog current_date current_role current_schema current_time current_timestamp current_user dec decimal default
		deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest
		group grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
		json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value lateral
		leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize not notnull null
		nullif numeric offset on only or order out outer overlaps overlay placing position precision primary real references
		returning right row select session_user setof similar smallint some substring symmetric system_user table tablesample
		then time timestamp to trailing treat trim true union unique user using values varchar variadic verbose when where window
		with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable`) {
		m[w] = true
	}
	return m
}()
