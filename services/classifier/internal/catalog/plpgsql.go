package catalog

import (
	"strings"
	"unicode/utf8"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// plpgsql reads the words of a PL/pgSQL body, whose lexical rules are those of
// SQL: whatever it calls, reads or writes is among them, except for EXECUTE, whose
// text is made at run time. PostgreSQL sees to it that a function which is not
// volatile runs nothing but queries. Of a volatile one the commands are looked at,
// too: each begins where a statement may begin.
//
// What a function that is not volatile can leave to its transaction are cursors and
// settings. A write may, but reads of one transaction run on more than one server.
func plpgsql(text string, volatile bool) body {
	r := reader{lexer: sqltoken.NewLexer([]byte(text), newestMajor), text: text, volatile: volatile, seen: make(map[use]bool)}
	for _, name := range implied {
		r.note(use{kind: useOperator, name: name})
	}
	if !r.scan() {
		return body{reason: "has a body that cannot be read"}
	}
	r.transactional = r.settingsOfTransaction()
	for i, w := range r.words {
		r.word(i, w)
	}
	if volatile {
		for i := range r.words {
			r.unproven(r.command(i))
		}
	}
	if r.reason != "" {
		r.effects |= r.made()
	}
	return body{reason: r.reason, primary: r.primary, uses: r.uses, effects: r.effects, writes: volatile && r.writes}
}

// reader is a PL/pgSQL body being read.
type reader struct {
	lexer sqltoken.Lexer
	text  string
	words []word
	// volatile functions run on the primary whatever is in them.
	volatile bool
	seen     map[use]bool
	// declaring says that the token is among the declarations of a block.
	declaring bool
	// transactional has the parentheses of three arguments of which the last is TRUE.
	transactional map[int]bool
	// reason and primary are those of the body, the first that was found.
	reason, primary string
	uses            []use
	effects         verdict.Effect
	writes          bool
	// truncates says that the token is in a TRUNCATE.
	truncates bool
}

// word is a token that is no comment: a folded word, the name in a quoted
// identifier, the value of a string, or the text of anything else.
type word struct {
	kind sqltoken.Kind
	text string
}

// is reports whether the token is one of the given, unquoted.
func (w word) is(texts ...string) bool {
	if w.kind == sqltoken.QuotedIdent || w.kind == sqltoken.String {
		return false
	}
	for _, t := range texts {
		if w.text == t {
			return true
		}
	}
	return false
}

// unproven notes why nothing can be said of the body, if there is a reason.
func (r *reader) unproven(reason string) {
	if r.reason == "" {
		r.reason = reason
	}
}

// keep notes why a body that is not volatile may not be in a read.
func (r *reader) keep(reason string) {
	if !r.volatile && r.primary == "" {
		r.primary = reason
	}
}

func (r *reader) note(u use) {
	if !r.seen[u] {
		r.seen[u] = true
		r.uses = append(r.uses, u)
	}
}

// scan takes the text apart. It reports false if that cannot be done.
func (r *reader) scan() bool {
	for {
		t, err := r.lexer.Next()
		if err != nil {
			return false
		}
		w := word{t.Kind, r.text[t.Start:t.End]}
		switch {
		case t.Kind == sqltoken.EOF:
			return true
		case t.IsComment():
			continue
		case t.Kind == sqltoken.Word:
			w.text = fold(w.text)
		case t.Kind == sqltoken.QuotedIdent:
			var ok bool
			if w.text, ok = unquote(w.text); !ok {
				return false
			}
		case t.Kind == sqltoken.UnicodeIdent:
			return false
		case t.Kind == sqltoken.String:
			if value, ok := r.lexer.AppendString(nil, t); ok {
				w.text = string(value)
			}
		}
		if isName(w.kind) && len(w.text) > longestName {
			w.text = clip(w.text)
		}
		r.words = append(r.words, w)
	}
}

// at gives a token; a zero one beyond the ends.
func (r *reader) at(i int) word {
	if i < 0 || i >= len(r.words) {
		return word{}
	}
	return r.words[i]
}

// word notes what a token may name, and what it says of the body.
func (r *reader) word(i int, w word) {
	switch {
	case w.kind == sqltoken.Word && w.text == "execute":
		r.unproven("runs SQL that it makes itself (EXECUTE)")
		return
	case isName(w.kind) && strings.HasPrefix(w.text, "pg_temp"):
		r.effects |= verdict.Session
		r.unproven("uses temporary objects")
		return
	case w.text == "set_config" && isName(w.kind) && r.endsWithTransaction(i):
		r.keep("sets something for the rest of its transaction")
		r.effects |= judge.LocalEffect(r.constant(i + 2))
		others := use{kind: useOthers, name: w.text, arguments: 3}
		if r.at(i - 1).is(".") {
			others.schema = r.at(i - 2).text
		}
		r.note(others)
		return
	case r.opens(i):
		r.keep("opens a cursor, which its transaction keeps")
	case isName(w.kind) && judge.OwnColumn(w.text):
		r.keep("looks at the column " + w.text)
	}
	if isName(w.kind) {
		r.note(use{kind: useWord, name: w.text})
	} else if operator[w.kind] {
		r.note(use{kind: useOperator, name: w.text})
	}
}

// longestName is PostgreSQL's NAMEDATALEN-1: of a longer name the server takes the
// beginning ("Identifiers and Key Words").
const longestName = 63

// clip cuts a name where the server does, between two characters.
func clip(name string) string {
	end := longestName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

func isName(k sqltoken.Kind) bool { return k == sqltoken.Word || k == sqltoken.QuotedIdent }

// opens reports whether an OPEN begins at the token, if it can begin a statement there:
// behind THEN and ELSE it may also be a column of that name.
func (r *reader) opens(i int) bool {
	if w := r.words[i]; w.kind != sqltoken.Word || w.text != "open" || !isName(r.at(i+1).kind) {
		return false
	}
	before := r.at(i - 1)
	return begins(before) || before.is("then", "else") && !r.at(i+1).is("else", "when", "end")
}

// begins reports whether a statement begins behind a token, for sure ("PL/pgSQL",
// "Structure of PL/pgSQL", "Control Structures").
func begins(before word) bool {
	return before == word{} || before.is(";", "begin", "loop") || before.kind == sqltoken.Operator && strings.HasSuffix(before.text, ">>")
}

// endsWithTransaction reports whether a call of set_config has the keyword TRUE as
// its last argument.
func (r *reader) endsWithTransaction(i int) bool {
	return r.transactional[i+1] && r.at(i+1).is("(") && (!r.at(i-1).is(".") || r.at(i-2).is("pg_catalog"))
}

// constant gives the string that is an argument by itself; empty for another one.
func (r *reader) constant(i int) string {
	if r.at(i).kind != sqltoken.String || !r.at(i+1).is(",") {
		return ""
	}
	return r.at(i).text
}

// setting gives the name of a setting, as far as one with a dot is told from others.
func (r *reader) setting(i int) string {
	if !isName(r.at(i).kind) {
		return ""
	}
	if r.at(i + 1).is(".") {
		return r.at(i).text + "."
	}
	if r.at(i).is("session") && r.at(i+1).is("authorization") {
		return "session_authorization"
	}
	return r.at(i).text
}

// settingsOfTransaction gives the parentheses, by where they open, around three
// arguments of which the last is the keyword TRUE. All are found in one pass: a client
// may send as many as a text holds, one in the other.
func (r *reader) settingsOfTransaction() map[int]bool {
	type list struct{ begin, commas int }
	found := make(map[int]bool)
	var open []list
	for i, w := range r.words {
		switch last := len(open) - 1; {
		case w.is("(", "["):
			open = append(open, list{begin: i})
		case last < 0:
		case w.is(")", "]"):
			if open[last].commas == 2 && r.at(i-1).is("true") && r.at(i-2).is(",") {
				found[open[last].begin] = true
			}
			open = open[:last]
		case w.is(","):
			open[last].commas++
		}
	}
	return found
}

// command looks at a token where a statement may begin: after a semicolon, BEGIN,
// THEN, ELSE, LOOP or a label. It gives the reason if nothing is known of what is run.
func (r *reader) command(i int) string {
	w := r.words[i]
	if w.kind == sqltoken.Word && writers[w.text] {
		r.writes = true
	}
	if w.kind != sqltoken.Word {
		return ""
	}
	before := r.at(i - 1)
	sure := begins(before) || w.text == "begin" && before.is("declare") // that declares nothing
	// THEN and ELSE are also those of CASE and MERGE, with an expression behind them.
	perhaps := before.is("then", "else")
	next := r.at(i + 1)
	switch {
	case w.text == "cascade" && r.truncates:
		return "truncates tables that it does not name"
	case !sure && !perhaps, next.is(":=", "=", ".", "["):
		return ""
	case w.text == "declare" && perhaps:
		return "has a block that is hard to tell from an expression"
	case quietCommands[w.text]:
		r.declaring = w.text == "declare" || r.declaring && w.text != "begin"
		r.truncates = w.text == "truncate"
		return ""
	case w.text == "do" && next.is("nothing"), w.text == "set" && next.is("constraints", "transaction"):
		return ""
	case w.text == "set" && next.is("local"):
		r.effects |= judge.LocalEffect(r.setting(i + 2))
		return ""
	case !r.declaring && (w.text == "set" || w.text == "reset" || w.text == "listen" || w.text == "unlisten"):
		r.effects |= verdict.Session
		return ""
	case (perhaps || r.declaring) && !loudCommands[w.text]:
		return "" // an expression, or the name of a variable
	}
	if w.text == "load" && next.kind == sqltoken.String { // otherwise a column behind THEN
		r.effects |= verdict.Indelible
	}
	for j := i + 1; w.text == "create" && j < i+5; j++ {
		if r.at(j).is("temp", "temporary") {
			r.effects |= verdict.Session
		}
	}
	return "runs the command " + strings.ToUpper(w.text)
}

// writers are the words without which a body writes no relation.
var writers = wordSet("insert update delete merge truncate copy")

// quietCommands begin the statements that do no more than their words say.
var quietCommands = wordSet(`
	if elsif elseif else case when loop while for foreach exit continue return raise assert perform
	get open fetch move close null begin declare end exception
	select insert update delete merge with values truncate lock notify call commit rollback`)

// loudCommands begin all other commands of SQL, and those of PL/pgSQL that run one.
var loudCommands = wordSet(`
	abort alter analyse analyze checkpoint cluster comment copy create deallocate discard do
	drop execute explain grant import listen load prepare reassign refresh reindex release repack reset
	revoke savepoint security set show start table unlisten vacuum wait`)

func wordSet(list string) map[string]bool {
	out := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		out[w] = true
	}
	return out
}

// operator are the kinds of tokens that may be one.
var operator = map[sqltoken.Kind]bool{sqltoken.Operator: true, sqltoken.Self: true}

// implied are the operators that syntax such as LIKE, IN and BETWEEN stands for,
// and those whose tokens have kinds of their own.
var implied = []string{"=", "<>", "<", "<=", ">", ">=", "~~", "!~~", "~~*", "!~~*", "~", "!~"}

// newestMajor is the release whose lexical rules accept the most.
const newestMajor = 18

// fold lower-cases as PostgreSQL does in a multi-byte encoding.
func fold(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, word)
}

// unquote gives the name in a quoted identifier without escapes.
func unquote(word string) (string, bool) {
	if len(word) < 2 || word[0] != '"' || word[len(word)-1] != '"' {
		return "", false // U&"…"
	}
	return strings.ReplaceAll(word[1:len(word)-1], `""`, `"`), true
}
