package catalog

import (
	"errors"
	"testing"

	pgquery "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

func TestPLpgSQLIsReadWordByWord(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		refused bool
		// names is whether the body names the function set_config.
		names bool
	}{
		"plain":          {text: "BEGIN RETURN 1; END"},
		"call":           {text: "BEGIN PERFORM set_config('a', 'b', false); END", names: true},
		"case":           {text: "BEGIN PERFORM Set_Config('a', 'b', false); END", names: true},
		"quoted":         {text: `BEGIN PERFORM "set_config"('a', 'b', false); END`, names: true},
		"other case":     {text: `BEGIN PERFORM "SET_CONFIG"('a', 'b', false); END`},
		"in a string":    {text: `BEGIN RETURN 'set_config'; END`},
		"in a comment":   {text: "BEGIN -- set_config\n/* EXECUTE set_config */ RETURN 1; END"},
		"dollar quotes":  {text: "BEGIN RETURN $x$ set_config EXECUTE $x$; END"},
		"execute":        {text: "BEGIN EXECUTE 'SELECT 1'; END", refused: true},
		"return execute": {text: "BEGIN RETURN QUERY execute $1; END", refused: true},
		"unicode":        {text: `BEGIN PERFORM U&"set\005fconfig"('a', 'b', false); END`, refused: true},
		"temporary":      {text: "BEGIN PERFORM pg_temp.f(); END", refused: true},
		"quoted temp":    {text: `BEGIN PERFORM "pg_temp_3".f(); END`, refused: true},
		"unterminated":   {text: "BEGIN RETURN 'x", refused: true},
	} {
		b := plpgsql(c.text, false)
		if (b.reason != "") != c.refused {
			t.Errorf("%s: %q", name, b.reason)
		}
		names := false
		for _, u := range b.uses {
			names = names || u.kind == useWord && u.name == "set_config"
		}
		if names != c.names {
			t.Errorf("%s: names set_config: %v", name, names)
		}
	}
}

// A parser that is busy must not make a function a write for ever.
func TestABodyIsTriedAgain(t *testing.T) {
	busy := true
	asked := 0
	b := newBodies(func(text string) (*pgquery.ParseResult, error) {
		asked++
		if busy {
			return nil, ErrNotNow
		}
		if text == "bad" {
			return nil, errors.New("syntax error")
		}
		return pgquery.Parse(text)
	})
	for _, step := range []struct {
		busy, missed bool
		text         string
		refused      bool
		asked        int
	}{
		{true, true, "SELECT 1", true, 1},
		{false, false, "SELECT 1", false, 2},
		{true, false, "SELECT 1", false, 2}, // remembered
		{false, false, "bad", true, 3},
		{true, false, "bad", true, 3}, // remembered, too
	} {
		busy = step.busy
		b.begin()
		got := b.of(source{language: "sql", text: step.text})
		if (got.reason != "") != step.refused || b.missed != step.missed || asked != step.asked {
			t.Fatalf("%+v: %q, missed %v, asked %d", step, got.reason, b.missed, asked)
		}
		b.end()
	}
	b.begin()
	b.end()
	if len(b.known) != 0 {
		t.Error("bodies that no function has any more are kept")
	}
}

func TestWhatIsSpoiltSpreads(t *testing.T) {
	g := newGraph()
	id := func(n uint32) int32 { return g.at(object{inProc, n}) }
	// 1 uses 2 uses 3; 4 and 5 use each other, 5 uses 6; 7 uses nothing.
	for _, e := range [][2]uint32{{1, 2}, {2, 3}, {4, 5}, {5, 4}, {5, 6}, {7, 7}} {
		g.uses(id(e[0]), id(e[1]))
	}
	g.nodes[id(2)].label = "view v"
	g.spoil(id(3), "function f is volatile", verdict.Unproven)
	g.spoil(id(6), "a", verdict.Session)
	g.spoil(id(4), "b", 0)
	g.spread()
	for n, want := range map[uint32]judge.Standing{
		1: {Reason: "view v: function f is volatile", Effects: verdict.Unproven},
		2: {Reason: "view v: function f is volatile", Effects: verdict.Unproven},
		4: {Reason: "b", Effects: verdict.Session},
		6: {Reason: "a", Effects: verdict.Session},
		7: {},
	} {
		if got := g.nodes[id(n)].standing; got != want {
			t.Errorf("%d: %+v, want %+v", n, got, want)
		}
	}
	if s := g.nodes[id(5)].standing; s.Harmless() || s.Effects != verdict.Session {
		t.Errorf("5: %+v", s)
	}
}

func TestTreesNameFunctions(t *testing.T) {
	for tree, want := range map[string][]object{
		"{FUNCEXPR :funcid 2077 :funcresulttype 25}":                     {{inProc, 2077}},
		"{OPEXPR :opno 96 :opfuncid 0}":                                  {{inOperator, 96}},
		"{AGGREF :aggfnoid 2803 :args ({WINDOWFUNC :winfnoid 3100})}":    {{inProc, 2803}, {inProc, 3100}},
		`{VAR :colnames ("a:funcid\ 5" "b")}`:                            nil,
		"{SCALARARRAYOPEXPR :opno 98 :opfuncid 67 :useOr true :args <>}": {{inOperator, 98}, {inProc, 67}},
		"{NEXTVALUEEXPR :seqid 16400 :typeId 23}":                        {{inRelation, 16400}},
	} {
		k := &compiler{graph: newGraph()}
		n := k.at(object{inRule, 1})
		k.tree(n, tree)
		if len(k.nodes) != len(want)+1 {
			t.Errorf("%s: %d objects, want %d", tree, len(k.nodes)-1, len(want))
		}
		for _, o := range want {
			if _, ok := k.index[o]; !ok {
				t.Errorf("%s: %v is overlooked", tree, o)
			}
		}
	}
	k := &compiler{graph: newGraph()}
	n := k.at(object{inRule, 1})
	k.tree(n, "{QUERY :hasForUpdate true :rtable <>}")
	if k.nodes[n].standing.Harmless() {
		t.Error("a locking clause is overlooked")
	}
}
