package mutant

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for name, text := range map[string]string{
		"p/go.mod":  "module p\n\ngo 1.26\n",
		"p/main.go": "package main\n\nfunc main() { println(answer()) }\n",
		"p/two.go":  "package main\n\nfunc answer() int { return 1 + 1 }\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	m := Mutant{Name: "adds wrongly", Edits: []Edit{{"p/two.go", "1 + 1", "1 + 2"}, {"p/two.go", "int", "int64"}}}
	if err := m.Build(t.Context(), root, t.TempDir(), "p", out, "build"); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(out).CombinedOutput()
	if err != nil || strings.TrimSpace(string(said)) != "3" {
		t.Errorf("the mutant says %q, %v", said, err)
	}
	for _, gone := range []Mutant{
		{"of text that is gone", []Edit{{"p/two.go", "2 + 2", ""}}},
		{"of text that is there twice", []Edit{{"p/two.go", "1", "2"}}},
		{"of no file", []Edit{{"p/three.go", "1", "2"}}},
	} {
		if err := gone.Build(t.Context(), root, t.TempDir(), "p", out, "build"); err == nil || !strings.Contains(err.Error(), gone.Name) {
			t.Errorf("a mutant %s: %v", gone.Name, err)
		}
	}
}
