package config

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"max_size", "max_waiters", "mode"}
	for s, want := range map[string]string{
		"max_sise":   "max_size",
		"maxsize":    "max_size",
		"max_waiter": "max_waiters",
		"moed":       "mode",
		"mod":        "mode",
		"m":          "",
		"":           "",
		"timeout":    "",
	} {
		if got := Nearest(s, words); got != want {
			t.Errorf("nearest to %q is %q, want %q", s, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"listen", "silent", 4}, {"same", "same", 0},
	} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := editDistance(tt.b, tt.a); got != tt.want {
			t.Errorf("%q to %q: got %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
