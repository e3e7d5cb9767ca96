package bus

import (
	"bytes"
	"os"
	"testing"
)

// What a router decodes most: a replica's position, up to a thousand times a second
// from each lagpoller while sessions wait.
func BenchmarkDecodeLag(b *testing.B) {
	text, err := os.ReadFile("testdata/v1/Lag.replica.json")
	if err != nil {
		b.Fatal(err)
	}
	text = bytes.TrimSpace(text) // as it is published
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode[Lag](text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeLag(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(someLag); err != nil {
			b.Fatal(err)
		}
	}
}
