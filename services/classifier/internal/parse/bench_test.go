package parse

import (
	"fmt"
	"strings"
	"testing"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

var benchTexts = []struct{ name, text string }{
	{"short", "SELECT abalance FROM pgbench_accounts WHERE aid = 17"},
	{"report", "SELECT a, count(*), sum(d) OVER w FROM t JOIN u USING (id) WHERE c > now() - interval '1 day' AND b LIKE 'x%' GROUP BY a WINDOW w AS (ORDER BY id) ORDER BY 2 DESC LIMIT 10"},
	{"list500kB", "SELECT 1 FROM t WHERE a IN (1" + strings.Repeat(",123456", 70_000) + ")"},
}

// What the boundary costs: the same work in this process, in a worker, and in a
// process started for each text.
func BenchmarkParse(b *testing.B) {
	p := open(b, 2, limits())
	inWorker := func(text string) error { return p.Parse(text, false, func(Parsed) {}) }
	for _, text := range benchTexts {
		b.Run("here/"+text.name, func(b *testing.B) {
			for b.Loop() {
				r := C(text.text, false)
				if err := proto.Unmarshal(r.Tree, new(pgquery.ParseResult)); r.Err != nil || err != nil {
					b.Fatal(r.Err, err)
				}
			}
		})
		b.Run("worker/"+text.name, func(b *testing.B) {
			for b.Loop() {
				if err := inWorker(text.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("workers/short", func(b *testing.B) {
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := inWorker(benchTexts[0].text); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("process/short", func(b *testing.B) {
		l := limits()
		for b.Loop() {
			w, err := start(&l) // which parses a text of that length
			if err != nil {
				b.Fatal(err)
			}
			w.end()
		}
	})
}

// What crosses: nothing but a verdict's size, a small tree, a large one.
func BenchmarkCrossing(b *testing.B) {
	p := open(b, 2, limits())
	for _, n := range []int{16, 128, 512, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := <-p.idle
			defer func() { p.idle <- w }()
			for b.Loop() {
				if a, err := w.ask(canned(n), false); err != nil || len(a.body) != n {
					b.Fatal(len(a.body), err)
				}
			}
		})
	}
}

const cannedMark = "bytes: "

// canned is a text for which the test's worker answers with n bytes, unparsed.
func canned(n int) string { return fmt.Sprint(cannedMark, n) }

// answerCanned gives what canned asks for.
func answerCanned(text string) (Raw, bool) {
	size, ok := strings.CutPrefix(text, cannedMark)
	if !ok {
		return Raw{}, false
	}
	var n int
	if _, err := fmt.Sscan(size, &n); err != nil {
		return Raw{Err: err}, true
	}
	return Raw{Tree: make([]byte, n)}, true
}
