package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Each of these chains, long enough, overflows the stack of the C code that turns
// the tree into protobuf, and with it the process.
func TestDeepNestingDoesNotEndTheProcess(t *testing.T) {
	chains := map[string]func(n int) string{
		"operators":   func(n int) string { return "SELECT 1" + strings.Repeat("+1", n) },
		"concat":      func(n int) string { return "SELECT 'a'" + strings.Repeat("||'a'", n) },
		"unary":       func(n int) string { return "SELECT " + strings.Repeat("- ", n) + "a" },
		"not":         func(n int) string { return "SELECT " + strings.Repeat("NOT ", n) + "true" },
		"casts":       func(n int) string { return "SELECT 1" + strings.Repeat("::int", n) },
		"tests":       func(n int) string { return "SELECT 1" + strings.Repeat(" ISNULL", n) },
		"collate":     func(n int) string { return "SELECT a" + strings.Repeat(` COLLATE "C"`, n) },
		"union":       func(n int) string { return "SELECT 1, 2" + strings.Repeat(" UNION SELECT 1, 2", n) },
		"values":      func(n int) string { return "VALUES (1), (2)" + strings.Repeat(" EXCEPT VALUES (1), (2)", n) },
		"joins":       func(n int) string { return "SELECT 1 FROM t" + strings.Repeat(" JOIN t USING (a, b)", n) },
		"cross joins": func(n int) string { return "SELECT 1 FROM a, t" + strings.Repeat(" CROSS JOIN t", n) },
		"parentheses": func(n int) string { return "SELECT " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) },
		"calls":       func(n int) string { return "SELECT " + strings.Repeat("abs(", n) + "1" + strings.Repeat(")", n) },
		"subqueries":  func(n int) string { return "SELECT " + strings.Repeat("(SELECT ", n) + "1" + strings.Repeat(")", n) },
		"arrays":      func(n int) string { return "SELECT ARRAY" + strings.Repeat("[", n) + "1" + strings.Repeat("]", n) },
		"comparisons": func(n int) string {
			return "SELECT " + strings.Repeat("(1, 2) = (", n) + "1, 2" + strings.Repeat(")", n)
		},
		"at zone": func(n int) string { return "SELECT a" + strings.Repeat(" AT TIME ZONE b", n) },
		"with": func(n int) string {
			return strings.Repeat("WITH x AS (", n) + "SELECT 1" + strings.Repeat(") SELECT 1", n)
		},
		"explain": func(n int) string { return strings.Repeat("EXPLAIN ", n) + "SELECT 1" },
		"mixed": func(n int) string {
			return "SELECT " + strings.Repeat("f(1, 2 + (SELECT a, ", n) + "1" + strings.Repeat("))", n)
		},
		"comments": func(n int) string {
			return "SELECT " + strings.Repeat("/*", n) + strings.Repeat("*/", n) + "1" + strings.Repeat("+1", n)
		},
	}
	for name, chain := range chains {
		for _, n := range []int{maxNesting / 4, maxNesting / 2, maxNesting, 3 * maxNesting, 100_000} {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				if o := Judge(chain(n), anyRelation{}); n >= 3*maxNesting && o.Kind != verdict.Write {
					// Parentheses alone make no level, but no grammar takes so many.
					t.Errorf("%v %v", o.Kind, o.Reason)
				}
			})
		}
	}
}

// Long is not deep: lists are as common as they are long.
func TestLongListsAreJudged(t *testing.T) {
	const n = 10_000
	for name, text := range map[string]string{
		"in":         "SELECT * FROM t WHERE a IN (1" + strings.Repeat(", 1", n) + ")",
		"targets":    "SELECT a + 1" + strings.Repeat(", a + 1", n) + " FROM t",
		"values":     "VALUES (1, 'a,b')" + strings.Repeat(", (1, 'c)')", n),
		"array":      "SELECT ARRAY[1" + strings.Repeat(", 1", n) + "]",
		"statements": "SELECT 1 + 1" + strings.Repeat("; SELECT 1 + 1", n),
		"comment":    "SELECT 1 /*" + strings.Repeat(" + ( 1", n) + "*/",
		"string":     "SELECT '" + strings.Repeat("+ ( 1", n) + "'",
		"name":       `SELECT 1 AS "` + strings.Repeat("+ ( 1", n) + `"`,
	} {
		if o := Judge(text, anyRelation{}); o.Kind != verdict.Read {
			t.Errorf("%s: a write because of %s", name, o.Reason)
		}
	}
}
