package judge

import (
	"slices"

	pgquery "github.com/pganalyze/pg_query_go/v6"
)

// Names are what a text names, for people: relations and functions as they are
// written, in the order of the text and each once.
type Names struct {
	// Reads and Writes are relations, Calls functions. Locks are relations of LOCK, and
	// those whose rows are locked, by alias where the text locks by alias.
	Reads, Writes, Calls, Locks []string
}

func (n *Names) add(o *Names) {
	for _, pair := range [][2]*[]string{{&n.Reads, &o.Reads}, {&n.Writes, &o.Writes}, {&n.Calls, &o.Calls}, {&n.Locks, &o.Locks}} {
		for _, name := range *pair[1] {
			mention(pair[0], "", name)
		}
	}
}

// maxNames bounds each list.
const maxNames = 32

func mention(list *[]string, schema, name string) {
	if schema != "" {
		name = schema + "." + name
	}
	if name != "" && len(*list) < maxNames && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

func mentionRelation(list *[]string, n *pgquery.RangeVar) {
	mention(list, n.GetSchemaname(), n.GetRelname())
}

// locks notes the relations that a SELECT locks rows of.
func (f *finder) locks(n *pgquery.SelectStmt) {
	for _, l := range n.GetLockingClause() {
		rels := l.GetLockingClause().GetLockedRels()
		for _, r := range rels {
			mentionRelation(&f.names.Locks, r.GetRangeVar())
		}
		if len(rels) == 0 {
			for _, from := range n.GetFromClause() {
				f.locksAll(from)
			}
		}
	}
}

func (f *finder) locksAll(n *pgquery.Node) {
	if j := n.GetJoinExpr(); j != nil {
		f.locksAll(j.GetLarg())
		f.locksAll(j.GetRarg())
		return
	}
	mentionRelation(&f.names.Locks, n.GetRangeVar())
}
