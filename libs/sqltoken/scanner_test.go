package sqltoken

import "testing"

var testSecret = Secret{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func scan(t testing.TB, text string) Result {
	t.Helper()
	res, err := NewScanner(testSecret).Scan([]byte(text), &Options{ServerMajor: 17})
	if err != nil {
		t.Fatalf("Scan(%q): %v", text, err)
	}
	return res
}

const selectText = "SELECT a.id, a.name, b.total FROM accounts a JOIN bills b ON b.aid = a.id WHERE a.id = 4711 AND b.x > 'q'"

func TestScanAllocatesNothing(t *testing.T) {
	s := NewScanner(testSecret)
	opts := Options{ServerMajor: 17}
	texts := [][]byte{
		[]byte(selectText),
		[]byte("UPDATE pgbench_accounts SET abalance = abalance + -2011 WHERE aid = 11;"),
		[]byte("BEGIN"),
		[]byte("select E'a\\nb', $$x$$, \"Q\", $1::int /* plain */ -- end"),
		[]byte("/* pgpilot: primary, freshness=250ms */ select 'é'"),
	}
	for _, text := range texts {
		if _, err := s.Scan(text, &opts); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range texts {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := s.Scan(text, &opts); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("Scan(%q) allocates %v times", text, n)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for _, bm := range []struct{ name, text string }{
		{"pgbench-59B", "SELECT abalance FROM pgbench_accounts WHERE aid = 1234567;"},
		{"select-107B", selectText},
		{"begin", "BEGIN"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s := NewScanner(testSecret)
			opts := Options{ServerMajor: 17}
			text := []byte(bm.text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Scan(text, &opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
