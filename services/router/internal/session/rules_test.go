package session_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEveryRuleIsTested holds docs/protocol.md against the tests it names: rules with
// scenarios have one that opens with their number, and all other tests exist.
func TestEveryRuleIsTested(t *testing.T) {
	const root = "../../../.."
	doc, err := os.ReadFile(filepath.Join(root, "docs/protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	opens := map[string]bool{}
	number := regexp.MustCompile(`\d+`)
	for _, file := range scenarios(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), ":")
		for _, n := range number.FindAllString(head, -1) {
			opens[n] = true
		}
	}
	tests := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		n := strings.TrimSpace(cells[1])
		if _, err := strconv.Atoi(n); err != nil {
			continue
		}
		rules++
		for by := range strings.SplitSeq(strings.TrimSpace(cells[3]), ", ") {
			switch {
			case by == "" && strings.Contains(cells[2], "not acted upon yet"):
			case by == "scenarios" && opens[n], tests[by]:
			default:
				t.Errorf("rule %s is to be tested by %q, which is not there", n, by)
			}
		}
	}
	if rules != 36 {
		t.Errorf("%d rules, want 36", rules)
	}
}
