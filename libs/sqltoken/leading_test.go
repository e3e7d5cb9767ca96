package sqltoken

import (
	"slices"
	"testing"
)

func TestLeadingKeywords(t *testing.T) {
	for _, tt := range []struct {
		text          string
		first, second Keyword
		statements    int
	}{
		{"", NoKeyword, NoKeyword, 0},
		{"-- c", NoKeyword, NoKeyword, 0},
		{" ; ;; ", NoKeyword, NoKeyword, 0},
		{"select 1", Select, NoKeyword, 1},
		{"select 1;", Select, NoKeyword, 1},
		{";;select 1;;", Select, NoKeyword, 1},
		{"select 1; select 2", Select, NoKeyword, 2},
		{"select ';', $$;$$, \";\" /* ; */ -- ;", Select, NoKeyword, 1},
		{"((values (1)))", Values, NoKeyword, 1},
		{"/* c */ BEGIN", Begin, NoKeyword, 1},
		{"begin work", Begin, Work, 1},
		{"BEGIN; COMMIT", Begin, NoKeyword, 2},
		{"start /* c */ TRANSACTION", Start, Transaction, 1},
		{"Set Local a = 1", Set, Local, 1},
		{"set\"local\" = 1", Set, NoKeyword, 1},
		{"RESET all", Reset, All, 1},
		{"discard sequences", Discard, Sequences, 1},
		{"rollback to a", Rollback, To, 1},
		{"prepare transaction 'x'", Prepare, Transaction, 1},
		{"commit prepared 'x'", Commit, Prepared, 1},
		{"explain analyze select 1", Explain, Analyze, 1},
		{"foo bar", NoKeyword, NoKeyword, 1},
		{"\"select\" 1", NoKeyword, NoKeyword, 1},
		{"create rule r as on insert to t do (select 1; select 2)", Create, NoKeyword, 2},
		{"create function f() begin atomic select 1; end", Create, NoKeyword, 2},
	} {
		res := scan(t, tt.text)
		if res.First != tt.first || res.Second != tt.second || res.Statements != tt.statements {
			t.Errorf("%q: got %q, %q, %d statements", tt.text, res.First, res.Second, res.Statements)
		}
	}
}

func TestKeywords(t *testing.T) {
	if !slices.IsSorted(keywordTexts[:]) {
		t.Error("the keywords are not in order")
	}
	for k := Abort; k < keywordCount; k++ {
		if len(k.String()) == 0 || len(k.String()) > maxKeyword {
			t.Errorf("keyword %d is %q", k, k)
		}
		if got := LookupKeyword([]byte(k.String())); got != k {
			t.Errorf("%q is found as %q", k, got)
		}
	}
	for _, word := range []string{"", "a", "zzz", "selec", "selects", "transactions", "\u017felect"} {
		if got := LookupKeyword([]byte(word)); got != NoKeyword {
			t.Errorf("%q is found as %q", word, got)
		}
	}
	if s := keywordCount.String(); s != "" {
		t.Errorf("an unknown keyword is %q", s)
	}
}

func TestNonASCII(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT 1":          false,
		"SELECT 'é'":        true,
		"é":                 true,
		"SELECT 1 /* é */":  true,
		"SELECT 12345678 é": true,
	} {
		if got := scan(t, text).NonASCII; got != want {
			t.Errorf("%q: NonASCII = %v", text, got)
		}
	}
}

func TestNonASCIIName(t *testing.T) {
	for text, want := range map[string]bool{
		"select 'é' -- é": false, "select $é$x$é$": false, "select a /* é */": false, "select E'é', U&'é'": false,
		"select é": true, "select \"é\"": true, "select a.é": true, "select 'é' as é": true, "select aé": true,
	} {
		if got := scan(t, text).NonASCIIName; got != want {
			t.Errorf("%q: NonASCIIName = %v", text, got)
		}
	}
}
