package judge

import "testing"

func BenchmarkJudge(b *testing.B) {
	for name, text := range map[string]string{
		"short":   "SELECT abalance FROM pgbench_accounts WHERE aid = 17",
		"report":  "SELECT a, count(*), sum(d) OVER w FROM t JOIN u USING (id) WHERE c > now() - interval '1 day' AND b LIKE 'x%' GROUP BY a WINDOW w AS (ORDER BY id) ORDER BY 2 DESC LIMIT 10",
		"insert":  "INSERT INTO t (id, a, b) VALUES (1, 2, 'three') ON CONFLICT DO NOTHING",
		"unknown": "SELEC 1",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Judge(text, anyRelation{})
			}
		})
	}
}
