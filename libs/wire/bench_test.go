package wire

import "testing"

// BenchmarkHeader frames a Query message and takes its text.
func BenchmarkHeader(b *testing.B) {
	message := AppendQuery(nil, "SELECT abalance FROM pgbench_accounts WHERE aid = 1234567;")
	for b.Loop() {
		_, total, err := Header(message)
		if err != nil || total != len(message) {
			b.Fatal(total, err)
		}
		if _, ok := QueryText(message); !ok {
			b.Fatal("the text is not terminated")
		}
	}
}
