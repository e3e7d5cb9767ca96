package tokencheck

import (
	"math/rand/v2"
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

const (
	// rounds is how many variants and mutants are made of each statement of the corpus.
	rounds      = 25
	shortRounds = 3
)

var options = sqltoken.Options{ServerMajor: serverMajor}

func newScanner() *sqltoken.Scanner { return sqltoken.NewScanner(sqltoken.Secret{1, 2, 3}) }

// TestEqualKeysEqualTrees groups the corpus, its variants and its mutants by key. All texts of one
// key must have one parse tree, constants aside; or none.
func TestEqualKeysEqualTrees(t *testing.T) {
	groups := newGroups(t)
	rng := rand.New(rand.NewPCG(1, 2))
	n := rounds
	if testing.Short() {
		n = shortRounds
	}
	for _, text := range corpus(t) {
		groups.add(text)
		all, ok := pieces(text)
		if !ok || len(all) == 0 {
			continue
		}
		for range n {
			groups.add(variant(rng, all))
			m := mutant(rng, all)
			groups.add(m)
			if again, ok := pieces(m); ok && len(again) > 0 {
				groups.add(variant(rng, again))
				groups.add(variant(rng, again))
			}
		}
	}
	t.Logf("%d texts in %d groups, %d texts met an equal key", groups.texts, len(groups.trees), groups.shared)
	if groups.shared < groups.texts/4 {
		t.Errorf("only %d of %d texts met an equal key: the test shows little", groups.shared, groups.texts)
	}
}

// TestVariantsShareKeys checks the other direction: what differs in white space, comments, case and
// the values of constants only has one key, if it has a template.
func TestVariantsShareKeys(t *testing.T) {
	s := newScanner()
	rng := rand.New(rand.NewPCG(3, 4))
	templates := 0
	for _, text := range corpus(t) {
		want, err := s.Scan([]byte(text), &options)
		if err != nil || want.FullText {
			continue
		}
		templates++
		all, _ := pieces(text)
		for range 10 {
			v := variant(rng, all)
			got, err := s.Scan([]byte(v), &options)
			if err != nil {
				t.Errorf("%q, a variant of %q: %v", v, text, err)
			} else if got.Key != want.Key {
				t.Errorf("%q and its variant %q have different keys", text, v)
			}
		}
	}
	if templates < 200 {
		t.Errorf("only %d statements of the corpus have a template", templates)
	}
}

func FuzzEqualKeysEqualTrees(f *testing.F) {
	for i, text := range corpus(f) {
		f.Add(text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		all, ok := pieces(text)
		if !ok || len(all) == 0 {
			t.Skip("no tokens")
		}
		rng := rand.New(rand.NewPCG(seed, 5))
		groups := newGroups(t)
		groups.add(text)
		groups.add(variant(rng, all))
		m := mutant(rng, all)
		groups.add(m)
		if again, ok := pieces(m); ok && len(again) > 0 {
			groups.add(variant(rng, again))
		}
	})
}

// groups holds the first tree seen for each key.
type groups struct {
	t       testing.TB
	scanner *sqltoken.Scanner
	trees   map[sqltoken.Key]member
	// texts were added, shared of them had a key already seen.
	texts, shared int
}

type member struct{ text, tree string }

func newGroups(t testing.TB) *groups {
	return &groups{t: t, scanner: newScanner(), trees: map[sqltoken.Key]member{}}
}

func (g *groups) add(text string) {
	g.t.Helper()
	res, err := g.scanner.Scan([]byte(text), &options)
	if err != nil {
		return
	}
	g.texts++
	this := member{text, tree(text)}
	first, seen := g.trees[res.Key]
	if !seen {
		g.trees[res.Key] = this
		return
	}
	g.shared++
	if this.tree != first.tree {
		g.t.Errorf("one key, two parse trees:\n%q\n%q", first.text, this.text)
	}
}

// tree returns the parse tree of text in a comparable form, without places and the values of
// constants; "" if text does not parse. Comments are blanked first, as pg_query stumbles over some
// that PostgreSQL takes for white space; see TestCommentsAreBlanked.
func tree(text string) string {
	bare, err := sqltoken.AppendWithoutComments(nil, []byte(text), serverMajor)
	if err != nil {
		return ""
	}
	parsed, err := pg_query.Parse(string(bare))
	if err != nil {
		return ""
	}
	blank(parsed.ProtoReflect())
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	if err != nil {
		panic(err) // the message was unmarshalled a moment ago
	}
	return "tree:" + string(b)
}

// blank removes places and the values of constants from a message and all below it.
func blank(m protoreflect.Message) {
	switch node := m.Interface().(type) {
	case *pg_query.A_Const:
		blankConst(node)
	case *pg_query.TypeName:
		for _, bound := range node.ArrayBounds {
			if n := bound.GetInteger(); n != nil && n.Ival >= 0 {
				n.Ival = 0
			}
		}
	case *pg_query.SQLValueFunction:
		if node.Typmod >= 0 {
			node.Typmod = 0
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case isPlace(fd.Name()):
			m.Clear(fd)
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				blank(v.List().Get(i).Message())
			}
		default:
			blank(v.Message())
		}
		return true
	})
}

func blankConst(c *pg_query.A_Const) {
	switch v := c.Val.(type) {
	case *pg_query.A_Const_Ival:
		v.Ival.Ival = 0
	case *pg_query.A_Const_Fval:
		v.Fval.Fval = ""
	case *pg_query.A_Const_Sval:
		v.Sval.Sval = ""
	case *pg_query.A_Const_Bsval:
		v.Bsval.Bsval = v.Bsval.Bsval[:1] // b or x
	}
}

func isPlace(name protoreflect.Name) bool {
	switch name {
	case "location", "name_location", "arg_location", "stmt_location", "stmt_len":
		return true
	}
	return false
}
