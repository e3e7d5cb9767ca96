package judge

import "github.com/pgpilot/pgpilot/libs/verdict"

// Standing is what is known of everything that a name may stand for. The zero
// Standing is that of something harmless.
type Standing struct {
	// Reason why the name may not be in a read, for people; empty if it may.
	Reason string
	// Effects on the server session of whatever it is that runs.
	Effects verdict.Effect
	// Unknown says that nothing of that name is known. It may exist by now, and then do
	// anything.
	Unknown bool
}

// Harmless reports whether the name may be in a read.
func (s Standing) Harmless() bool { return s.Reason == "" }

// AnyArguments stands for a number of arguments that the text does not tell.
const AnyArguments = -1

// Catalog knows what names stand for in one database. A schema is empty where
// the text gives none: then everything of that name counts, in whichever schema,
// since search_path is not known. Names are as the parser gives them, folded and
// unquoted. Implementations are safe for concurrent use and do not change.
type Catalog interface {
	// Function is asked about a call with so many arguments.
	Function(schema, name string, arguments int) Standing
	// Attribute is asked about a name that follows an expression, and may be a call
	// of a function with one argument. If row is set, the argument is a whole row of
	// a relation or of a subquery.
	Attribute(name string, row bool) Standing
	// Others is asked about the functions of that name that a call with so many arguments
	// may stand for and that are not PostgreSQL's own: the zero Standing if there is none,
	// and one that is not Harmless if there is any.
	Others(schema, name string, arguments int) Standing
	// Block is asked about the text of a block (DO): only the effects of what it may run
	// count.
	Block(language, text string) Standing
	// Parameter reports whether a name in the text is that of a parameter of the function
	// whose body it is, so that a name behind it may be a call with its value.
	Parameter(name string) bool
	Operator(schema, name string) Standing
	Type(schema, name string) Standing
	Relation(schema, name string) Standing
	// Written is asked about a relation whose rows a statement changes, or reads in
	// order to change what belongs to it: only the effects of what that may run
	// (triggers, defaults, checks, rules, policies) count.
	Written(schema, name string) Standing
	// Unseen is what any statement may run although nothing in it says so.
	Unseen() Standing
	// Major is the server's release, zero if that is not known.
	Major() int
	// Defining is what a statement that changes the catalog may run (event triggers).
	Defining() Standing
}
