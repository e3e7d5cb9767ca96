package sqltoken

// Kind is the kind of a token, as PostgreSQL's scanner tells them apart. Keywords are Words: which
// words are keywords depends on the release, and nothing here needs to know.
type Kind uint8

// The kinds. The name in parentheses is the token's name in PostgreSQL's grammar.
const (
	// EOF is the end of the text.
	EOF Kind = iota
	// Word is an unquoted identifier or keyword (IDENT or a keyword).
	Word
	// NChar is the n of n'...', which the grammar reads as the keyword NCHAR. The string follows
	// as a token of its own.
	NChar
	// QuotedIdent is "..." (IDENT).
	QuotedIdent
	// UnicodeIdent is U&"..." (UIDENT).
	UnicodeIdent
	// String is '...', E'...' or $tag$...$tag$ (SCONST).
	String
	// UnicodeString is U&'...' (USCONST).
	UnicodeString
	// BitString is B'...' (BCONST).
	BitString
	// HexString is X'...' (XCONST).
	HexString
	// Integer is a whole number that fits int32 (ICONST).
	Integer
	// Float is every other number (FCONST), whole numbers beyond int32 included.
	Float
	// Param is $1 (PARAM).
	Param
	// Operator is an operator that is not a kind of its own (Op).
	Operator
	// Typecast is :: (TYPECAST).
	Typecast
	// DotDot is .. (DOT_DOT).
	DotDot
	// ColonEquals is := (COLON_EQUALS).
	ColonEquals
	// EqualsGreater is => (EQUALS_GREATER).
	EqualsGreater
	// LessEquals is <= (LESS_EQUALS).
	LessEquals
	// GreaterEquals is >= (GREATER_EQUALS).
	GreaterEquals
	// NotEquals is <> or != (NOT_EQUALS).
	NotEquals
	// Self is one of ,()[].;:+-*/%^<>= standing for itself.
	Self
	// Other is a byte that begins no token: the grammar has no rule for it, so the statement is a
	// syntax error.
	Other
	// LineComment is -- to the end of the line, without the newline.
	LineComment
	// BlockComment is /* ... */ with what is nested in it.
	BlockComment
)

// Flags are details of a token.
type Flags uint8

const (
	// Joined marks a string constant written in pieces on several lines, which PostgreSQL joins.
	Joined Flags = 1 << iota
	// Escaped marks E'...'.
	Escaped
	// DollarQuoted marks $tag$...$tag$.
	DollarQuoted
	// ByteEscape marks E'...' with an octal or hexadecimal escape for a zero or non-ASCII byte.
	// PostgreSQL refuses the string if the bytes do not fit the server's encoding.
	ByteEscape
	// Whole marks a number written as digits only, in any base. A whole Float is a bigint to
	// PostgreSQL if it fits, otherwise numeric.
	Whole
)

// Token is one token: text[Start:End], both in bytes.
type Token struct {
	Kind       Kind
	Flags      Flags
	Start, End int
}

// IsLiteral reports whether the token is a constant whose value the template key leaves out.
func (t Token) IsLiteral() bool { return t.Kind >= String && t.Kind <= Float }

// IsComment reports whether the token is a comment.
func (t Token) IsComment() bool { return t.Kind == LineComment || t.Kind == BlockComment }
