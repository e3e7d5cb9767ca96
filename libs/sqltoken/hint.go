package sqltoken

import (
	"bytes"
	"slices"
)

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

// Hint is one item of a comment that begins with "pgpilot:", in whatever case. A comment may hold
// several, separated by commas, semicolons or white space: /* pgpilot: replica, freshness=250ms */.
// A comment that would be understood but for a missing colon, or a plus sign in front as other
// programs want it, is one of an unknown name.
type Hint struct {
	Kind HintKind
	// Item is the whole item, Value what follows its equals sign (empty without one).
	Item, Value Span
}

const hintWord = "pgpilot"

// MayHint reports whether a text may hold hints. It costs little.
func MayHint(text []byte) bool {
	for _, opening := range [...]string{"/*", "--"} {
		if at := bytes.Index(text, []byte(opening)); at >= 0 && containsFold(text[at:], hintWord) {
			return true
		}
	}
	return false
}

// containsFold reports whether the text has the word in it, which begins with a letter.
func containsFold(text []byte, word string) bool {
	for at := 0; at+len(word) <= len(text); at++ {
		if text[at]|0x20 == word[0] && equalFold(text[at:at+len(word)], word) {
			return true
		}
	}
	return false
}

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
	strange := i < end && text[i] == '+'
	if strange {
		i++
	}
	for i < end && isHintSpace(text[i]) {
		i++
	}
	from := i
	if end-i < len(hintWord) || !equalFold(text[i:i+len(hintWord)], hintWord) {
		return hints
	}
	i += len(hintWord)
	switch {
	case i < end && text[i] == ':':
		i++
	case i < end && isHintSeparator(text[i]):
		strange = true
	default:
		return hints
	}
	before := len(hints)
	for {
		for i < end && isHintSeparator(text[i]) {
			i++
		}
		if i == end {
			break
		}
		from := i
		for i < end && !isHintSeparator(text[i]) {
			i++
		}
		hints = append(hints, newHint(text, from, i))
	}
	if found := hints[before:]; strange && len(found) > 0 {
		meant := !slices.ContainsFunc(found, func(h Hint) bool { return h.Kind == HintUnknown })
		last := found[len(found)-1].Item.End
		if hints = hints[:before]; meant {
			hints = append(hints, Hint{Kind: HintUnknown, Item: Span{from, last}, Value: Span{last, last}})
		}
	}
	return hints
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
