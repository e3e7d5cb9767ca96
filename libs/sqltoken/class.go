package sqltoken

// class is what a byte can begin.
type class uint8

const (
	classOther class = iota
	classSpace
	classVTab   // a space since PostgreSQL 16
	classWord   // letter, underscore or high-bit byte
	classPrefix // a letter that may begin a string: b e n u x
	classDigit
	classQuote
	classDoubleQuote
	classDollar
	classOperator
	classDot
	classColon
	classSelf // , ( ) [ ] ;
)

const (
	selfChars     = ",()[].;:+-*/%^<>="
	operatorChars = "~!@#^&|`?+-*/%<>="
)

// classes and fold are constant tables; fold maps a byte that can continue an identifier to its
// lower-case form (ASCII only, as PostgreSQL does in multibyte encodings) and all others to zero.
var (
	classes = classTable()
	fold    = foldTable()
)

func classTable() (t [256]class) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = classWord, classWord
	}
	t['_'] = classWord
	for c := 0x80; c <= 0xff; c++ {
		t[c] = classWord
	}
	for _, c := range "benuxBENUX" {
		t[c] = classPrefix
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = classDigit
	}
	for _, c := range " \t\n\r\f" {
		t[c] = classSpace
	}
	for _, c := range selfChars {
		t[c] = classSelf
	}
	for _, c := range operatorChars {
		t[c] = classOperator
	}
	t['\v'] = classVTab
	t['\''] = classQuote
	t['"'] = classDoubleQuote
	t['$'] = classDollar
	t['.'] = classDot
	t[':'] = classColon
	return t
}

func foldTable() (t [256]byte) {
	for c := range t {
		switch b := byte(c); {
		case b >= 'A' && b <= 'Z':
			t[c] = b - 'A' + 'a'
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '_', b == '$', b >= 0x80:
			t[c] = b
		}
	}
	return t
}

// beginsWord reports whether c can begin an identifier.
func beginsWord(c byte) bool {
	k := classes[c]
	return k == classWord || k == classPrefix
}

func isDigit(c byte) bool { return c-'0' < 10 }
