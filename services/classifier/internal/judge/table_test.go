package judge

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// entry is one line of testdata/verdicts.txt.
type entry struct {
	line     int
	kind     verdict.Kind
	effects  verdict.Effect
	volatile bool
	since    int // the oldest release that knows the syntax, zero if all do
	text     string
}

// anyRelation is Static that takes every relation of a user for a table.
type anyRelation struct{ Static }

func (a anyRelation) Relation(schema, name string) Standing {
	switch {
	case schema == systemSchema, schema == "" && strings.HasPrefix(name, "pg_"):
		return a.Static.Relation(schema, name)
	case strings.HasPrefix(schema, "pg_"): // pg_toast
		return Standing{Reason: "relation " + name}
	}
	return Standing{}
}

func (a anyRelation) Written(schema, name string) Standing { return a.Relation(schema, name) }

func (anyRelation) Defining() Standing { return Standing{} }

func table(t testing.TB) []entry {
	t.Helper()
	b, err := os.ReadFile("testdata/verdicts.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []entry
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		head, text, ok := strings.Cut(line, "|")
		words := strings.Fields(head)
		if !ok || len(words) == 0 {
			t.Fatalf("line %d has no verdict: %s", i+1, line)
		}
		e := entry{line: i + 1, text: strings.TrimPrefix(text, " ")}
		if e.kind, err = verdict.ParseKind(words[0]); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		words = words[1:]
		for len(words) > 0 {
			if words[0] == "volatile" {
				e.volatile = true
			} else if since, ok := strings.CutPrefix(words[0], "since"); ok {
				if e.since, err = strconv.Atoi(since); err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
			} else {
				break
			}
			words = words[1:]
		}
		if e.effects, err = verdict.ParseEffects(words); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		out = append(out, e)
	}
	if len(out) < 400 {
		t.Fatalf("only %d entries: the file is not read whole", len(out))
	}
	return out
}

func TestVerdicts(t *testing.T) {
	for _, e := range table(t) {
		o := Judge(e.text, anyRelation{})
		if o.Kind != e.kind || o.Effects != e.effects {
			t.Errorf("line %d: %s\n\tgot %v %v (%s), want %v %v", e.line, e.text, o.Kind, o.Effects, o.Reason, e.kind, e.effects)
		}
		if (o.Kind == verdict.Read) != (o.Reason == "") {
			t.Errorf("line %d: a %v with reason %q", e.line, o.Kind, o.Reason)
		}
		if (o.Fingerprint == 0) != o.Effects.Has(verdict.Unparsable) {
			t.Errorf("line %d: fingerprint %x of a text that is %v", e.line, o.Fingerprint, o.Effects)
		}
	}
}

// What is wrapped around a statement must not hide what it is.
func TestVerdictsInDisguise(t *testing.T) {
	for _, e := range table(t) {
		if e.effects.Has(verdict.Unparsable) || strings.HasSuffix(e.text, "-- nothing") || strings.Contains(e.text, "-- FOR") {
			continue
		}
		for _, text := range []string{
			e.text + ";",
			"/* x */ " + e.text + " /* y */",
			"-- SELECT 1\n" + e.text + "\n-- z",
			"SELECT 1;" + e.text,
			e.text + ";SELECT 1",
		} {
			if o := Judge(text, anyRelation{}); o.Kind != e.kind || o.Effects != e.effects {
				t.Errorf("line %d: %s\n\tgot %v %v (%s), want %v %v", e.line, text, o.Kind, o.Effects, o.Reason, e.kind, e.effects)
			}
		}
		if e.kind == verdict.Read {
			if o := Judge(e.text+";DELETE FROM t", anyRelation{}); o.Kind != verdict.Write {
				t.Errorf("line %d: a DELETE after it is overlooked", e.line)
			}
		}
	}
}

func TestTextNoStatementCanHave(t *testing.T) {
	for _, text := range []string{"SELECT 1\x00; DELETE FROM t", "SELECT '\xff'", "SELECT 1 \xc3"} {
		if o := Judge(text, anyRelation{}); o.Kind != verdict.Write || !o.Effects.Has(verdict.Unparsable) {
			t.Errorf("%q: %v %v", text, o.Kind, o.Effects)
		}
	}
}
