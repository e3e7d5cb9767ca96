package judge

import (
	"errors"
	"strings"
	"unicode/utf8"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Opinion is a verdict and the first thing that made it a write.
type Opinion struct {
	verdict.Verdict
	// Reason is for people: "function nextval", "a locking clause". Empty for a read.
	Reason string
	// Unknown says that something in it is not known, which may have been created since
	// the catalog was read. The verdict must not be remembered.
	Unknown bool
	// Defines says that the text may change what names stand for.
	Defines bool
	// Names are what it names.
	Names Names
	// Template says that it is made of nothing but SELECT, INSERT, UPDATE, DELETE and
	// MERGE, so that its normalized form has no constant.
	Template bool
	locals
}

// Judge parses the text in this process and judges it. Only tests do that: the
// parser can crash, so the classifier lets a process of its own parse (package
// parse) between Refuse and Tree.
func Judge(text string, c Catalog) Opinion {
	if o, refused := Refuse(text); refused {
		return o
	}
	text = Bare(text)
	tree, err := pgquery.Parse(text)
	if err != nil {
		if refused := (*parser.Error)(nil); errors.As(err, &refused) {
			return Unparsable(refused.Message)
		}
		return Opinion{Verdict: verdict.Unclassified(), Reason: "a parse tree that cannot be decoded: " + err.Error()}
	}
	// A text that parsed has a fingerprint; zero, for "none", is right if not.
	fingerprint, _ := pgquery.FingerprintToUInt64(text)
	return Tree(text, tree, fingerprint, c)
}

// Bare gives the text without comments, everything else in its place: pg_query does
// not take a comment for white space everywhere, and texts that differ only in
// comments share a verdict. A text that cannot be taken apart stays as it is.
func Bare(text string) string {
	b, err := sqltoken.AppendWithoutComments(nil, []byte(text), NewestMajor)
	if err != nil {
		return text
	}
	return string(b)
}

// Refuse gives the opinion of a text that must not reach the parser, and whether
// it is one.
func Refuse(text string) (o Opinion, refused bool) {
	if !utf8.ValidString(text) {
		return Unparsable("text that is not UTF-8"), true
	}
	if strings.IndexByte(text, 0) >= 0 {
		return Unparsable("a zero byte"), true // where the parser would take the text to end
	}
	if n, err := nesting(text); err != nil {
		return Unparsable(err.Error()), true
	} else if n > maxNesting {
		return Opinion{Verdict: verdict.Unclassified(), Reason: "an expression nested too deeply to be parsed safely"}, true
	}
	return Opinion{}, false
}

// Tree judges what the parser made of a text, in a database. Several statements
// read only if each of them reads, and their effects add up. An empty text reads.
func Tree(text string, tree *pgquery.ParseResult, fingerprint uint64, c Catalog) Opinion {
	all, opinions := together(tree, c)
	for i := range opinions {
		opinions[i].own = opinions[i].Effects
		opinions[i].Effects |= opinions[i].unfollowed
		all.Effects |= opinions[i].unfollowed
	}
	all.Fingerprint = fingerprint
	all.Detail = detail(text, tree.GetStmts(), opinions, c)
	return all
}

// Body judges the body of a function like Tree, without the details for who routes a
// statement: c is asked about nothing but what runs. What it sets until the end of the
// transaction is Local. What it makes may be temporary, by the search_path of who calls it.
func Body(tree *pgquery.ParseResult, c Catalog) Opinion {
	all, opinions := together(tree, c)
	for i := range opinions {
		all.Effects |= opinions[i].asLocal()
		if opinions[i].makes {
			all.Effects |= verdict.Unproven
		}
	}
	return all
}

// together gives the opinions of the statements, and what follows for all of them.
func together(tree *pgquery.ParseResult, c Catalog) (all Opinion, opinions []Opinion) {
	all = Opinion{Verdict: verdict.Verdict{Kind: verdict.Read}, Template: true}
	stmts := tree.GetStmts()
	opinions = make([]Opinion, len(stmts))
	for i, s := range stmts {
		o := statement(s.GetStmt(), c)
		opinions[i] = o
		all.Names.add(&o.Names)
		all.Template = all.Template && o.Template
		all.Effects |= o.Effects
		all.Defines = all.Defines || o.Defines
		all.Unknown = all.Unknown || o.Unknown
		if o.Kind != verdict.Read && all.Kind == verdict.Read {
			all.Kind, all.Reason = verdict.Write, o.Reason
		}
	}
	all.Passing = all.Unknown
	return all, opinions
}

// Unparsable is the opinion of a text that only the server can explain. It may be newer than
// the parser, and then do anything.
func Unparsable(reason string) Opinion {
	return Opinion{Verdict: verdict.Verdict{Kind: verdict.Write, Effects: verdict.Unparsable | verdict.Unproven}, Reason: reason}
}
