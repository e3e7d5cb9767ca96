package clerk

import (
	"testing"
	"unique"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// Old catalogs are large: nothing may hold one because of a verdict that passed.
func TestPassingVerdictsKeepNoOldCatalog(t *testing.T) {
	p, err := newPassing()
	if err != nil {
		t.Fatal(err)
	}
	before, after := judge.Static{Pending: true}, judge.Static{}
	at := func(database string, key byte) matter { return matter{unique.Make(database), sqltoken.Key{key}} }
	p.add(at("a", 1), hearing{by: before})
	p.add(at("a", 2), hearing{by: before})
	p.add(at("b", 1), hearing{by: before})
	if _, ok := p.get(at("a", 1), before); !ok {
		t.Fatal("forgotten at once")
	}
	if _, ok := p.get(at("a", 1), after); ok {
		t.Fatal("what was heard by another catalog is believed")
	}
	if n := p.hearings.Len(); n != 1 {
		t.Fatalf("%d hearings are kept, want that of the other database", n)
	}
	if _, ok := p.get(at("b", 1), before); !ok {
		t.Fatal("the other database's is gone, too")
	}
}
