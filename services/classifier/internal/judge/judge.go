package judge

import (
	"errors"
	"strings"
	"unicode/utf8"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Opinion is a verdict and the first thing that made it a write.
type Opinion struct {
	verdict.Verdict
	// Reason is for people: "function nextval", "a locking clause". Empty for a read.
	Reason string
}

// Judge parses the text and judges it. Several statements read only if each of
// them reads, and their effects add up. An empty text reads.
func Judge(text string) Opinion {
	if !utf8.ValidString(text) {
		return unparsable("text that is not UTF-8")
	}
	if strings.IndexByte(text, 0) >= 0 {
		return unparsable("a zero byte") // where the parser would take the text to end
	}
	if n, err := nesting(text); err != nil {
		return unparsable(err.Error())
	} else if n > maxNesting {
		return Opinion{verdict.Unclassified(), "an expression nested too deeply to be parsed safely"}
	}
	tree, err := pgquery.Parse(text)
	if err != nil {
		if refused := (*parser.Error)(nil); errors.As(err, &refused) {
			return unparsable(refused.Message)
		}
		return Opinion{verdict.Unclassified(), "a parse tree that cannot be decoded: " + err.Error()}
	}
	o := Opinion{Verdict: verdict.Verdict{Kind: verdict.Read}}
	for _, s := range tree.GetStmts() {
		reason, effects := statement(s.GetStmt())
		o.Effects |= effects
		if reason != "" && o.Kind == verdict.Read {
			o.Kind, o.Reason = verdict.Write, reason
		}
	}
	if o.Kind == verdict.Read && o.Effects != 0 {
		o.Kind, o.Reason = verdict.Write, o.Effects.String()
	}
	// A text that parsed has a fingerprint; zero, for "none", is right if not.
	o.Fingerprint, _ = pgquery.FingerprintToUInt64(text)
	return o
}

// unparsable is a text that only the server can explain. It may be newer than
// the parser, and then do anything.
func unparsable(reason string) Opinion {
	return Opinion{verdict.Verdict{Kind: verdict.Write, Effects: verdict.Unparsable | verdict.Unproven}, reason}
}
