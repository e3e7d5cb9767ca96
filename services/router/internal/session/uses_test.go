package session

import "testing"

// EXECUTE may be anywhere in a text, in any case.
func TestMentionsExecute(t *testing.T) {
	for text, want := range map[string]bool{
		"":                            false,
		"x":                           false,
		"execute":                     true,
		"EXPLAIN EXECUTE p":           true,
		"explain (verbose) ExecuTe":   true,
		"SELECT max(x) FROM executed": true,
		"SELECT xecute, excute, exe":  false,
		"execut":                      false,
	} {
		if mentionsExecute([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
