package tokencheck

import (
	"os"
	"strings"
	"testing"
)

// minCorpus guards against a corpus that was lost or no longer read.
const minCorpus = 700

// corpus returns the statements of testdata: one a line in statements.txt and commands.txt, and between lines of %%
// in multiline.txt. Lines that begin with # are headings.
func corpus(t testing.TB) []string {
	t.Helper()
	seen := map[string]bool{}
	var all []string
	add := func(s string) {
		if !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	for line := range strings.Lines(read(t, "statements.txt") + read(t, "commands.txt")) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			add(line)
		}
	}
	for _, part := range strings.Split(read(t, "multiline.txt"), "\n%%\n") {
		add(part)
	}
	if len(all) < minCorpus {
		t.Fatalf("the corpus has %d statements, want at least %d", len(all), minCorpus)
	}
	return all
}

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatalf("read the corpus: %v", err)
	}
	return string(b)
}
