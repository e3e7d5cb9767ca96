package session_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into the scenario files")

// TestScenarios plays testdata/*.txt. A scenario opens with a comment that says
// which failure it pins. Its lines starting with ">" are events; the indented
// lines below one are what the session does then, and the state it is in after
// it (go test -run TestScenarios -rewrite ./internal/session).
func TestScenarios(t *testing.T) {
	for _, file := range scenarios(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(in, []byte("# ")) {
				t.Error("it does not say which failure it pins")
			}
			p := newPlay(t, 0)
			var out strings.Builder
			for line := range strings.Lines(string(in)) {
				switch {
				case strings.HasPrefix(line, "> "):
					out.WriteString(line)
					for _, l := range p.event(strings.TrimSpace(line[2:])) {
						out.WriteString("  " + l + "\n")
					}
				case !strings.HasPrefix(line, "  "):
					out.WriteString(line)
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got, want := out.String(), string(in); got != want {
				t.Errorf("another course than the file's:\n%s", firstDifference(got, want))
			}
		})
	}
}

// TestScenariosInPieces plays every scenario again with all bytes arriving in
// pieces of one byte, of three and of seven. Nothing else may change: what is
// sent where, byte for byte, and what is done in which order.
func TestScenariosInPieces(t *testing.T) {
	for _, file := range scenarios(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play := func(piece int) *play {
				p := newPlay(t, piece)
				for line := range strings.Lines(string(in)) {
					if e, ok := strings.CutPrefix(line, "> "); ok {
						p.event(strings.TrimSpace(e))
					}
				}
				return p
			}
			whole := play(0)
			for _, piece := range []int{1, 3, 7} {
				p := play(piece)
				for name, want := range whole.sent {
					if got := p.sent[name]; !bytes.Equal(got, want) {
						t.Errorf("in pieces of %d, to %s went\n%q\ninstead of\n%q", piece, name, got, want)
					}
				}
				if got, want := strings.Join(p.done, "\n"), strings.Join(whole.done, "\n"); got != want {
					t.Errorf("in pieces of %d:\n%s", piece, firstDifference(got, want))
				}
			}
		})
	}
}

func scenarios(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	return files
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			exp := "the end"
			if i < len(w) {
				exp = w[i]
			}
			return fmt.Sprintf("line %d: got  %s\nline %d: want %s", i+1, g[i], i+1, exp)
		}
	}
	return fmt.Sprintf("it ends after line %d, want more: %s", len(g), w[len(g)])
}
