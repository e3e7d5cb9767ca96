package verdict

import (
	"slices"
	"testing"
)

func TestNamesAreReadBack(t *testing.T) {
	for _, k := range []Kind{Read, Write} {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("ParseKind(%q) = %v, %v", k, got, err)
		}
	}
	for e := Effect(0); e <= known; e++ {
		if got, err := ParseEffects(e.Names()); err != nil || got != e {
			t.Errorf("ParseEffects(%q) = %v, %v", e.Names(), got, err)
		}
	}
	if _, err := ParseKind("perhaps"); err == nil {
		t.Error("an unknown kind must be an error")
	}
	if _, err := ParseEffects([]string{"session", "teleports"}); err == nil {
		t.Error("an unknown effect must be an error: it cannot be honoured")
	}
}

func TestEveryEffectHasAName(t *testing.T) {
	var named Effect
	for _, n := range effectNames {
		named |= n.e
	}
	if named != known {
		t.Fatalf("named effects %b, known effects %b", named, known)
	}
	if got := (Session | Unparsable).Names(); !slices.Equal(got, []string{"session", "unparsable"}) {
		t.Fatalf("got %q", got)
	}
}

func TestTheZeroVerdictIsAWrite(t *testing.T) {
	if v := (Verdict{}); v.Kind != Write {
		t.Fatalf("the zero verdict is a %v", v.Kind)
	}
	if v := Unclassified(); v.Kind != Write || !v.Effects.Has(Unproven) {
		t.Fatalf("unclassified is %+v", v)
	}
}
