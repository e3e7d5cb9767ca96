// Package sqltoken reads statement text the way PostgreSQL's scanner does and boils it down to a
// template key, so that a verdict found for one statement serves all that differ only in literal
// values.
//
// # What it promises
//
//   - The tokens are those of PostgreSQL 15 to 18 ("SQL Syntax: Lexical Structure") with
//     standard_conforming_strings on and text in UTF-8: the same boundaries, the same kinds. What
//     the server's scanner refuses is an error here, and so is what releases read differently. Only
//     whether escapes make valid characters (ByteEscape, U&) is left to the server.
//   - Equal keys mean equal parse trees up to the values of constants of one token kind, on the
//     same release. When in doubt the key is that of the whole text.
//   - Scan looks at the text once, keeps nothing of it, and allocates nothing for ordinary
//     statements. Text of any length costs the same memory.
//   - Without the Secret nobody can make two statements share a key.
//
// Scanner gives the key, the leading keywords and the hints of a text; Lexer gives its tokens, for
// who needs the literals or the words. Neither is safe for concurrent use. The caller owns the text
// and may reuse its buffer after Scan returns.
//
// # Why templates are sound
//
// A template is the token stream without white space and comments. Unquoted words are folded to
// lower case for ASCII only and never cut to 63 bytes, quoted identifiers stay apart from words,
// operators and parameter numbers stay, and a constant is replaced by its kind. PostgreSQL's grammar
// decides by token kinds, so the values of constants end up in the parse tree as values. The places
// where a value does more, and what is done about each:
//
//   - An integer constant is ICONST if it fits int32, else FCONST, and FCONST is bigint if it fits,
//     else numeric; a minus sign before it moves the bounds by one. A different type can mean a
//     different function, so each of these classes has its own mark.
//   - float(n) is real up to 24 and double precision up to 53: n is part of the key.
//   - U&"..." and U&'...' are decoded after the scanner, with an escape character that a UESCAPE
//     clause may set: whole text, also wherever UESCAPE itself occurs.
//   - Strings joined across a newline: whole text, as here white space matters.
//   - n'...' is NCHAR '...', while n '...' is a constant of type n: two marks.
//   - E'...' with an octal or hexadecimal escape for a zero or non-ASCII byte may be refused by the
//     server's scanner depending on the value. That would not make a template unsound, but a verdict
//     of "cannot be parsed" must not be kept for the good statements of the template: whole text.
//   - Statements that begin with anything but SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES, TABLE or
//     WITH, or the readable ones among these in parentheses: whole text. EXPLAIN (ANALYZE 1), SET,
//     FETCH 5, sequence options and many more read their constants in the grammar.
//   - Several statements in one text: whole text.
//
// Looked at and found harmless, because the value only becomes a value in the tree: type modifiers
// (varchar(n), timestamp(p), interval(p), interval '1' second(p), bit(n), array bounds),
// CURRENT_TIMESTAMP(p), LIMIT, OFFSET, FETCH FIRST n (which negates its constant by kind alone), ORDER BY 1
// and GROUP BY 1 (they name a column of the same select list), window frames, TABLESAMPLE,
// EXTRACT('year' FROM x), constants after a type name (date '...', f(1) '...'), JSON_TABLE paths (which must
// be a string constant, and a kind is kept), XML constructors, LIKE ... ESCAPE, CYCLE marks, unary
// minus (folded into the constant by kind alone). Named arguments, JSON encodings, XMLTABLE options,
// EXTRACT fields, interval fields and normalisation forms are words and thus part of the key.
//
// The classifier's package tokencheck holds all this against PostgreSQL's own scanner and parser.
//
// What the literals of a call mean (set_config, query_to_xml, nextval) is not this package's matter:
// such verdicts are marked argument-dependent and look at the literals each time.
package sqltoken
