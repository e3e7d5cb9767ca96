package tokencheck

import (
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// minTexts is how many distinct statements are judged at least.
const minTexts = 20_000

// tables is a database in which every relation is a table, so that verdicts differ by
// what else a statement says.
type tables struct{ judge.Static }

func (tables) Relation(schema, name string) judge.Standing { return judge.Standing{} }
func (tables) Written(schema, name string) judge.Standing  { return judge.Standing{} }
func (tables) Defining() judge.Standing                    { return judge.Standing{} }
func (tables) Major() int                                  { return serverMajor }

// TestEqualKeysEqualVerdicts judges the corpus, the judge's own, and what comes of
// them with other constants, comments, quoting, case and Unicode.
func TestEqualKeysEqualVerdicts(t *testing.T) {
	all := append(corpus(t), judgesCorpus(t)...)
	type hearing struct {
		text    string
		opinion judge.Opinion
	}
	// What has been heard, for servers of each release: a key holds for one of them.
	first := make(map[int]map[sqltoken.Key]hearing)
	for major := 15; major <= 18; major++ {
		first[major] = make(map[sqltoken.Key]hearing)
	}
	texts, shared := make(map[string]bool), 0
	scanner := newScanner()
	check := func(text string) {
		if texts[text] {
			return
		}
		heard := false
		var o judge.Opinion
		for major, first := range first {
			r, err := scanner.Scan([]byte(text), &sqltoken.Options{ServerMajor: major})
			if err != nil {
				continue
			}
			texts[text] = true
			if !heard {
				heard, o = true, judge.Judge(text, tables{})
			}
			was, seen := first[r.Key]
			if !seen {
				first[r.Key] = hearing{text, o}
				continue
			}
			if major == serverMajor {
				shared++
			}
			f := was.opinion
			if o.Kind != f.Kind || o.Effects != f.Effects || o.Defines != f.Defines || o.Unknown != f.Unknown || !reflect.DeepEqual(o.Detail, f.Detail) {
				t.Errorf("one key for release %d, two verdicts:\n%q: %v %v %s\n%q: %v %v %s", major, was.text, f.Kind, f.Effects, f.Reason, text, o.Kind, o.Effects, o.Reason)
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	least := minTexts
	if testing.Short() {
		least = minTexts / 10
	}
	for round := 0; round == 0 || len(texts) < least; round++ {
		for _, text := range all {
			if round == 0 {
				check(text)
				continue
			}
			tokens, ok := pieces(text)
			if !ok || len(tokens) == 0 {
				continue
			}
			check(variant(rng, tokens))
			if again, ok := pieces(mutant(rng, tokens)); ok && len(again) > 0 {
				check(variant(rng, again))
				check(variant(rng, again))
			}
		}
	}
	t.Logf("%d texts with %d keys, %d met an equal key", len(texts), len(first[serverMajor]), shared)
	if shared < len(texts)/10 {
		t.Errorf("only %d of %d texts met an equal key: the test shows little", shared, len(texts))
	}
}

// judgesCorpus gives the statements of the judge's table.
func judgesCorpus(t testing.TB) (all []string) {
	t.Helper()
	b, err := os.ReadFile("../judge/testdata/verdicts.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if head, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "| "); ok && !strings.HasPrefix(head, "#") {
			all = append(all, text)
		}
	}
	if len(all) < 400 {
		t.Fatalf("the judge's corpus has %d statements", len(all))
	}
	return all
}

// TestEveryKindOfStatementIsInTheCorpus looks for each statement node of the parser.
func TestEveryKindOfStatementIsInTheCorpus(t *testing.T) {
	missing := make(map[string]bool)
	fields := (&pg_query.Node{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Message().Name()); strings.HasSuffix(name, "Stmt") {
			missing[name] = true
		}
	}
	// No text of a client has one of these at its top, or gets one from the parser.
	for _, inner := range []string{"RawStmt", "SetOperationStmt", "ReturnStmt", "PLAssignStmt", "ReplicaIdentityStmt"} {
		delete(missing, inner)
	}
	for line := range strings.Lines(read(t, "commands.txt")) {
		if line[0] == '#' {
			continue
		}
		tree, err := pg_query.Parse(judge.Bare(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		for _, s := range tree.GetStmts() {
			n := s.GetStmt().ProtoReflect()
			if field := n.WhichOneof(n.Descriptor().Oneofs().ByName("node")); field != nil {
				delete(missing, string(field.Message().Name()))
			}
		}
	}
	for name := range missing {
		t.Errorf("no %s", name)
	}
}
