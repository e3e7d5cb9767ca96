package verdict

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

var someDetail = &Detail{Parts: []Part{
	{Kind: Read, Start: 0, End: 8},
	{Effects: Session, Start: 9, End: 30, Prepare: &Prepare{Name: "p", Kind: Read, Effects: 0}},
	{Effects: Unproven, Execute: &Execute{Name: `a"b`, Kind: Write, Effects: Session | Sequences}},
	{Effects: Session, Settings: []Setting{{Operand{Literal: 1}, Operand{Param: 2}, Operand{Word: "false"}}}, Rest: Unproven},
}}

func TestADetailTravelsOnTheBus(t *testing.T) {
	want := Verdict{Effects: Session, Fingerprint: 1, Detail: someDetail}
	_, got, err := FromMessage(want.Message("d", sqltoken.Key{1}))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v became %+v, %v", want, got, err)
	}
	m := want.Message("d", sqltoken.Key{1})
	m.Detail = []byte(`{"parts":[{"kind":"read","effects":["levitates"]}]}`)
	if _, _, err := FromMessage(m); err == nil {
		t.Fatal("half a detail is taken for a whole one")
	}
}

func TestALongDetailIsLeftBehind(t *testing.T) {
	d := &Detail{Parts: make([]Part, 1000)}
	m := Verdict{Detail: d}.Message("d", sqltoken.Key{})
	if len(m.Detail) != 0 {
		t.Fatalf("a detail of %d bytes travels", len(m.Detail))
	}
}

func TestExecuteHasTheVerdictOfItsStatement(t *testing.T) {
	for _, c := range []struct {
		p       Prepare
		x       Execute
		kind    Kind
		effects Effect
	}{
		{Prepare{Kind: Read}, Execute{Kind: Read}, Read, 0},
		{Prepare{Kind: Write, Effects: Sequences}, Execute{Kind: Read}, Write, Sequences},
		{Prepare{Kind: Read}, Execute{Kind: Write, Effects: Session}, Write, Session},
	} {
		if kind, effects := c.x.Of(&c.p); kind != c.kind || effects != c.effects {
			t.Errorf("%+v of %+v: %v %v", c.x, c.p, kind, effects)
		}
	}
}

func TestArgumentsAreEvaluated(t *testing.T) {
	l := func(n int) Operand { return Operand{Literal: n} }
	p := func(n int) Operand { return Operand{Param: n} }
	w := func(s string) Operand { return Operand{Word: s} }
	params := map[int]string{1: "a.b", 2: "value", 3: "t", 4: "\x00", 5: "\x01", 6: "maybe", 7: " FALSE "}
	for name, c := range map[string]struct {
		text     string
		settings []Setting
		want     []Change
	}{
		"constants": {"SELECT set_config('a.b', 'c''d', false)", []Setting{{l(1), l(2), w("false")}}, []Change{{Name: "a.b", Value: "c'd"}}},
		"others before": {"SELECT 1, 'x' /* 'no' */, set_config(E'a\\.b', $q$c$q$, 'on')", []Setting{{l(3), l(4), l(5)}},
			[]Change{{Name: "a.b", Value: "c", Local: true}}},
		"parameters":        {"SELECT set_config($1, $2, $3)", []Setting{{p(1), p(2), p(3)}}, []Change{{Name: "a.b", Value: "value", Local: true}}},
		"binary false":      {"SELECT set_config($1, $2, $4)", []Setting{{p(1), p(2), p(4)}}, []Change{{Name: "a.b", Value: "value"}}},
		"binary true":       {"SELECT set_config($1, $2, $5)", []Setting{{p(1), p(2), p(5)}}, []Change{{Name: "a.b", Value: "value", Local: true}}},
		"spelled out":       {"SELECT set_config($1, $2, $7)", []Setting{{p(1), p(2), p(7)}}, []Change{{Name: "a.b", Value: "value"}}},
		"default":           {"SELECT set_config('a.b', NULL, NULL)", []Setting{{l(1), w("null"), w("null")}}, []Change{{Name: "a.b", Default: true}}},
		"null parameter":    {"SELECT set_config('a.b', $9, false)", []Setting{{l(1), p(9), w("false")}}, []Change{{Name: "a.b", Default: true}}},
		"empty":             {"SELECT set_config('a.b', '', false)", []Setting{{l(1), l(2), w("false")}}, []Change{{Name: "a.b"}}},
		"two":               {"SELECT set_config('a', 'b', true), set_config('c', 'd', false)", []Setting{{l(1), l(2), w("true")}, {l(3), l(4), w("false")}}, []Change{{Name: "a", Value: "b", Local: true}, {Name: "c", Value: "d"}}},
		"no such literal":   {"SELECT set_config('a.b', 'c', false)", []Setting{{l(1), l(3), w("false")}}, nil},
		"not a string":      {"SELECT set_config('a.b', 5, false)", []Setting{{l(1), l(2), w("false")}}, nil},
		"unknown parameter": {"SELECT set_config($1, $8, false)", []Setting{{p(1), p(8), w("false")}}, nil},
		"no boolean":        {"SELECT set_config($1, $2, $6)", []Setting{{p(1), p(2), p(6)}}, nil},
		"no name":           {"SELECT set_config(NULL, $2, $3)", []Setting{{w("null"), p(2), p(3)}}, nil},
		"unterminated":      {"SELECT set_config('a.b", []Setting{{l(1), l(1), w("true")}}, nil},
	} {
		v := Verdict{Effects: Session | Sequences, Detail: &Detail{Parts: []Part{{Settings: c.settings, Rest: Sequences}}}}
		got, changes := v.Evaluate(Execution{Text: []byte(c.text), ServerMajor: 17, Param: func(n int) ([]byte, bool, bool) {
			s, ok := params[n]
			return []byte(s), n == 9, ok || n == 9
		}})
		if !reflect.DeepEqual(changes, c.want) {
			t.Errorf("%s: %+v, want %+v", name, changes, c.want)
		}
		if want := map[bool]Effect{true: Sequences, false: Session | Sequences}[c.want != nil]; got.Effects != want {
			t.Errorf("%s: %v, want %v", name, got.Effects, want)
		}
	}
	v := Verdict{Effects: Session, Detail: &Detail{Parts: []Part{{Settings: []Setting{{l(1), p(1), w("false")}}}}}}
	if got, changes := v.Evaluate(Execution{Text: []byte("SELECT set_config('a', $1, false)")}); changes != nil || got.Effects != Session {
		t.Errorf("without parameters: %v, %+v", got.Effects, changes)
	}
}

func TestBooleansAreReadAsPostgreSQLDoes(t *testing.T) {
	for value, words := range map[string]string{"true": "t tr tru true TRUE y ye yes on ON 1", "false": "f fa fals false n no of off oFf 0", "": "o x truee yess 2 on1 tf"} {
		for _, w := range strings.Fields(words) {
			got, ok := boolean([]byte(w))
			if ok != (value != "") || ok && got != (value == "true") {
				t.Errorf("%q: %v, %v", w, got, ok)
			}
		}
	}
}
