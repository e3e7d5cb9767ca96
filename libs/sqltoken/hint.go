package sqltoken

import "bytes"

// Span is text[Start:End] of the text scanned.
type Span struct{ Start, End int }

// HintKind is what a hint asks for.
type HintKind uint8

// The hints.
const (
	// HintUnknown is a hint of no known name: the client is warned once.
	HintUnknown HintKind = iota
	// HintPrimary asks for the primary.
	HintPrimary
	// HintReplica asks for a replica.
	HintReplica
	// HintFreshness allows an answer as old as its value, a duration such as 250ms.
	HintFreshness
	// HintFence asks for the writes of another session, named by the token that is its value.
	HintFence
)

// Hint is one item of a comment that begins with "pgpilot:". A comment may hold several, separated
// by commas, semicolons or white space: /* pgpilot: replica, freshness=250ms */.
type Hint struct {
	Kind HintKind
	// Item is the whole item, Value what follows its equals sign (empty without one).
	Item, Value Span
}

const hintPrefix = "pgpilot:"

// MayHint reports whether a text may hold hints. It costs little.
func MayHint(text []byte) bool { return bytes.Contains(text, []byte(hintPrefix)) }

// Hints returns the hints in all comments of a text, in order; see NewLexer.
func Hints(text []byte, serverMajor int) ([]Hint, error) {
	var hints []Hint
	lx := NewLexer(text, serverMajor)
	for {
		t, err := lx.Next()
		if err != nil {
			return nil, err
		}
		if t.Kind == EOF {
			return hints, nil
		}
		if t.IsComment() {
			hints = appendHints(hints, text, t.Kind, t.Start, t.End)
		}
	}
}

// appendHints appends the hints of the comment text[start:end], delimiters included.
func appendHints(hints []Hint, text []byte, kind Kind, start, end int) []Hint {
	i := start + 2
	if kind == BlockComment {
		end -= 2
	}
	for i < end && isHintSpace(text[i]) {
		i++
	}
	if !bytes.HasPrefix(text[i:end], []byte(hintPrefix)) {
		return hints
	}
	i += len(hintPrefix)
	for {
		for i < end && isHintSeparator(text[i]) {
			i++
		}
		if i == end {
			return hints
		}
		from := i
		for i < end && !isHintSeparator(text[i]) {
			i++
		}
		hints = append(hints, newHint(text, from, i))
	}
}

func newHint(text []byte, start, end int) Hint {
	name, value := end, end
	if n := bytes.IndexByte(text[start:end], '='); n >= 0 {
		name, value = start+n, start+n+1
	}
	return Hint{
		Kind:  hintKind(text[start:name], name < end),
		Item:  Span{start, end},
		Value: Span{value, end},
	}
}

// hintKind returns the hint of a name; a name that needs a value and has none is unknown, and the
// other way round.
func hintKind(name []byte, hasValue bool) HintKind {
	switch {
	case equalFold(name, "primary") && !hasValue:
		return HintPrimary
	case equalFold(name, "replica") && !hasValue:
		return HintReplica
	case equalFold(name, "freshness") && hasValue:
		return HintFreshness
	case equalFold(name, "fence") && hasValue:
		return HintFence
	}
	return HintUnknown
}

func isHintSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'
}

func isHintSeparator(c byte) bool { return c == ',' || c == ';' || isHintSpace(c) }
