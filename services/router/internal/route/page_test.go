package route

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
)

// The table of reasons in the router's README has all there are, and no others.
func TestReasonsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\n\| reason \| the statement \|\n(.*?)\n\n`).FindSubmatch(page)
	if table == nil {
		t.Fatal("there is no table of reasons")
	}
	said := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllSubmatch(table[1], -1) {
		said[string(row[1])] = true
	}
	want := slices.Sorted(slices.Values(reasonNames[:]))
	if got := slices.Sorted(maps.Keys(said)); !slices.Equal(got, want) {
		t.Errorf("the page has %v, want %v", got, want)
	}
}
