// Package bustest gives tests what docs/bus.md tells operators to write.
package bustest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Permissions writes the example configuration of docs/bus.md for a NATS server of the
// operator's own into a file and gives its path. It has a user for each service, named
// after it, with the password "change me". page is the path of docs/bus.md.
func Permissions(t testing.TB, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "```conf\n", "```"
	_, block, found := strings.Cut(string(text), begin)
	block, _, ended := strings.Cut(block, end)
	if !found || !ended {
		t.Fatal(fmt.Errorf("%s has no block that begins with %q", page, begin))
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
