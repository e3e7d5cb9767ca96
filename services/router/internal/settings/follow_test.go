package settings

import (
	"slices"
	"testing"
)

// TestFollow reads strings of which some statements are not followed.
func TestFollow(t *testing.T) {
	for text, want := range map[string][]Kind{
		"SELECT 1":                   {},
		"SELECT 1; SELECT 'COMMIT'":  {},
		"":                           {},
		"SELECT 1; COMMIT; SELECT 2": {Other, Commit, Other},
		"BEGIN;; SET a.b = 1; INSERT INTO t VALUES (1);":                                 {Begin, Set, Other},
		"SAVEPOINT a; SELECT 1; ROLLBACK TO a":                                           {Savepoint, Other, RollbackTo},
		"SET client_encoding = SJIS; ROLLBACK":                                           {Other, Rollback},
		"SELECT 'a; COMMIT":                                                              nil,
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; ROLLBACK": nil,
		"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); ROLLBACK":              nil,
		`ROLLBACK TO U&"\0061"`:                                                          nil,
		`SELECT 1; SAVEPOINT U&"\0061"`:                                                  nil,
		"SELECT (1); ROLLBACK":                                                           {Other, Rollback},
		"COMMIT; SELECT 1" + longComment:                                                 nil,
	} {
		cs, ok := Follow([]byte(text))
		var got []Kind
		if ok {
			got = []Kind{}
		}
		for _, c := range cs {
			got = append(got, c.Kind)
		}
		if (got == nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("%.40q is %v, want %v", text, got, want)
		}
		if known := len(cs) > 0 && !slices.Contains(got, Other); Known(cs) != known {
			t.Errorf("%.40q is known: %v, want %v", text, !known, known)
		}
	}
}

// TestBeginsWithEnd looks for what a failed transaction executes.
func TestBeginsWithEnd(t *testing.T) {
	for text, want := range map[string]bool{
		"ROLLBACK; SELECT 1":          true,
		"/* a */ COMMIT":              true,
		";ABORT":                      true,
		"ROLLBACK TO a; SELECT 1":     true,
		"PREPARE TRANSACTION 'a'":     true,
		"SELECT 1; ROLLBACK":          false,
		"RELEASE a":                   false,
		"BEGIN":                       false,
		"":                            false,
		"ROLLBACK TO a" + longComment: false,
	} {
		if got := BeginsWithEnd([]byte(text)); got != want {
			t.Errorf("%.40q: %v, want %v", text, got, want)
		}
	}
}
