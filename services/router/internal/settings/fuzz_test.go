package settings

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// FuzzPart takes the statements about the router's parameters out of strings: what is
// left has none, all others in the same places, and every character where it was.
func FuzzPart(f *testing.F) {
	for _, s := range []string{
		"SET pgpilot.route = primary; SELECT 1", "BEGIN; SHOW PgPilot.route; COMMIT", "SELECT 1; SET pgpilot.route = 'süß' /* a */; SELECT 2",
		";; RESET \"pgpilot\".route;;SELECT 1 -- x", "SET U&\"pgpilot\".a = U&'b'; x", "SELECT '; SET pgpilot.a = b'; SHOW pgpilot.a", "SHOW pgpilot.a; $$ ", "SHOW pgpilot.\xff; SELECT 1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		rest, own := Part(text)
		if !bytes.Equal(text, before) {
			t.Fatalf("%q has become %q", before, text)
		}
		if own == nil && rest != nil {
			t.Fatalf("%q has nothing and is %q", text, rest)
		}
		if rest == nil {
			return
		}
		if utf8.RuneCount(rest) != utf8.RuneCount(text) {
			t.Errorf("%q has another length than %q", rest, text)
		}
		if _, again := Part(rest); again != nil {
			t.Errorf("%q still has %+v", rest, again)
		}
		others := count(rest)
		if all := count(text); others+len(own) != all || others == 0 {
			t.Errorf("of the %d statements of %q %d are left and %d taken", all, text, others, len(own))
		}
		last := 0
		for _, o := range own {
			if o.Behind < last || o.Behind > others || !IsOwn(o.Name) {
				t.Errorf("%q has %+v of %d behind %d", text, o, others, last)
			}
			last = o.Behind
		}
	})
}

// count gives how many statements a text has.
func count(text []byte) (n int) {
	for p := newParser(text); p.statement(); {
		n++
	}
	return n
}
