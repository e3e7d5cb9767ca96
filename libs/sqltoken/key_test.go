package sqltoken

import (
	"errors"
	"strings"
	"testing"
)

func TestSameKey(t *testing.T) {
	for _, group := range [][]string{
		{"SELECT 1", "select 2", "/* c */ SeLeCt\n\t2147483647 -- c"},
		{"SELECT 1 FROM t", "select/* c */0x7fffffff--\nFROM T", "SELECT 1_000\r\nFROM t -- x"},
		{"SELECT 'a'", "SELECT 'it''s'", `SELECT E'\n'`, "SELECT $$x$$", "SELECT $q$'$q$", "SELECT'--'"},
		{"SELECT 1.5", "SELECT .5", "SELECT 1e10", "SELECT 99999999999999999999"},
		{"SELECT 2147483649", "SELECT 9223372036854775807", "SELECT 0xffffffff"},
		{"SELECT B'1'", "SELECT b''"},
		{"SELECT X'1'", "SELECT x'ff'"},
		{"SELECT N'a'", "SELECT n'b'"},
		{"SELECT x::varchar(1)", "SELECT x::varchar(20)"},
		{"(SELECT 1) UNION (SELECT 2)", "( SELECT 3 )UNION( SELECT 4 )"},
		{"SELECT a=-1", "SELECT a = - 2"},
		{"INSERT INTO t VALUES (1, 'a')", "insert into t values(2,'b')"},
		{"SELECT E'\\x41'", "SELECT 'b'"},
	} {
		first := scan(t, group[0])
		if first.FullText {
			t.Errorf("%q has no template", group[0])
		}
		for _, text := range group[1:] {
			if scan(t, text).Key != first.Key {
				t.Errorf("%q and %q have different keys", group[0], text)
			}
		}
	}
}

func TestDifferentKeys(t *testing.T) {
	for _, group := range [][]string{
		{
			"SELECT 1", "SELECT 1.5", "SELECT 2147483648", "SELECT 2147483649", "SELECT 9223372036854775808",
			"SELECT '1'", "SELECT B'1'", "SELECT X'1'", "SELECT N'1'", "SELECT n '1'", "SELECT $1", "SELECT $2",
			"SELECT -1", "SELECT (1)", "SELECT 1, 1", "SELECT 1;", "SELECT", "VALUES (1)", "SELECT null",
		},
		{"SELECT x::float(1)", "SELECT x::float(24)", "SELECT x::float(25)", "SELECT x::\"float\"(25)"},
		{"SELECT a", `SELECT "a"`, `SELECT "A"`, `SELECT "a""b"`, "SELECT a b", `SELECT a "b"`, "SELECT ab"},
		{"SELECT é", "SELECT É", `SELECT "é"`},
		{"SELECT a+b", "SELECT a-b", "SELECT a||b", "SELECT a|b", "SELECT a | | b", "SELECT a <> b", "SELECT a != b"},
		{"SELECT a.b", "SELECT a..b", "SELECT a. .b", "SELECT a:b", "SELECT a::b", "SELECT a:=b"},
		{"SELECT a" + strings.Repeat("x", 70), "SELECT a" + strings.Repeat("x", 71)},
		{"SELECT 'a' 'b'", "SELECT 'a'\n'b'"},
	} {
		seen := map[Key]string{}
		for _, text := range group {
			key := scan(t, text).Key
			if other, ok := seen[key]; ok {
				t.Errorf("%q and %q share a key", other, text)
			}
			seen[key] = text
		}
	}
}

func TestFullText(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT 1":                         false,
		"SELECT 1;":                        false,
		";; SELECT 1 ; ;":                  false,
		"INSERT INTO t VALUES (1)":         false,
		"UPDATE t SET a = 1":               false,
		"DELETE FROM t":                    false,
		"MERGE INTO t USING s ON true":     false,
		"VALUES (1)":                       false,
		"TABLE t":                          false,
		"WITH a AS (SELECT 1) TABLE a":     false,
		"((SELECT 1))":                     false,
		"(WITH a AS (SELECT 1) TABLE a)":   false,
		"(INSERT INTO t VALUES (1))":       true,
		"(DELETE FROM t)":                  true,
		"SELECT 1; SELECT 2":               true,
		"":                                 true,
		"-- nothing":                       true,
		";":                                true,
		"(;SELECT 1)":                      true,
		"BEGIN":                            true,
		"EXPLAIN (ANALYZE 1) SELECT 1":     true,
		"SET a = 1":                        true,
		"CREATE TABLE t AS SELECT 1":       true,
		"EXECUTE p (1)":                    true,
		"DECLARE c CURSOR FOR SELECT 1":    true,
		"COPY t FROM STDIN":                true,
		`"select" 1`:                       true,
		"1":                                true,
		"'select' 1":                       true,
		"SELECT 'a'\n'b'":                  true,
		"SELECT B'0'\n'1'":                 true,
		"SELECT U&'a'":                     true,
		`SELECT U&"a"`:                     true,
		"SELECT 'a' UESCAPE '!'":           true,
		"SELECT a.uEscape FROM t":          true,
		`SELECT "uescape"`:                 false,
		`SELECT E'\xff'`:                   true,
		`SELECT E'\0'`:                     true,
		`SELECT E'\303\251'`:               true,
		`SELECT E'\x41'`:                   false,
		"SELECT interval '1' second(3), 1": false,
	} {
		res := scan(t, text)
		if res.FullText != want {
			t.Errorf("%q: FullText = %v", text, res.FullText)
		}
		if res.FullText && scan(t, text+" ").Key == res.Key {
			t.Errorf("%q: the key is not that of the whole text", text)
		}
	}
}

// TestKeyDependsOn checks everything beside the text that makes the key.
func TestKeyDependsOn(t *testing.T) {
	other := testSecret
	other[0]++
	ctx := NewContext(testSecret, "db", "on")
	for _, text := range []string{"SELECT 1", "BEGIN", "SELECT " + strings.Repeat("a, ", 5000) + "1", "BEGIN " + strings.Repeat("a, ", 5000)} {
		seen := map[Key]bool{}
		for _, c := range []struct {
			secret Secret
			opts   Options
		}{
			{testSecret, Options{ServerMajor: 17}},
			{other, Options{ServerMajor: 17}},
			{testSecret, Options{ServerMajor: 16}},
			{testSecret, Options{ServerMajor: 17, Context: ctx}},
			{testSecret, Options{ServerMajor: 17, Context: NewContext(testSecret, "d", "bon")}},
			{testSecret, Options{ServerMajor: 17, Context: NewContext(testSecret, "db", "off")}},
			{testSecret, Options{ServerMajor: 17, Context: NewContext(other, "db", "on")}},
		} {
			res, err := NewScanner(c.secret).Scan([]byte(text), &c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if seen[res.Key] {
				t.Errorf("%.20q: secret %v and options %v share a key with others", text, c.secret[0], c.opts)
			}
			seen[res.Key] = true
		}
	}
	if NewContext(testSecret, "db", "on") != ctx {
		t.Error("NewContext is not a function of its arguments")
	}
}

// TestLongTexts drives the encoder over the ends of its buffer at every offset.
func TestLongTexts(t *testing.T) {
	s := NewScanner(testSecret)
	opts := Options{ServerMajor: 17}
	seen := map[Key]int{}
	for n := 4000; n < 4200; n++ {
		for i, text := range []string{
			"SELECT " + strings.Repeat("a", n) + ", 'x', b",
			"SELECT " + strings.Repeat("a", n) + ", \"x\", b",
			"SELECT \"" + strings.Repeat("a", n) + "\", 'x', b",
			"SELECT " + strings.Repeat("a,", n) + "$1",
			"BEGIN " + strings.Repeat("a", n),
		} {
			res, err := s.Scan([]byte(text), &opts)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[res.Key]; ok {
				t.Fatalf("shape %d of length %d shares a key with one of length %d", i, n, other)
			}
			seen[res.Key] = n
			upper := strings.ToUpper(text)
			if i == 0 || i == 3 {
				again, err := s.Scan([]byte("/* c */"+upper), &opts)
				if err != nil || again.Key != res.Key {
					t.Fatalf("shape %d of length %d: upper case changes the key (%v)", i, n, err)
				}
			}
		}
	}
}

func TestScanErrors(t *testing.T) {
	for text, want := range map[string]Error{
		"SELECT 'a":      ErrUnterminatedString,
		"SELECT 1; /*":   ErrUnterminatedComment,
		"SELECT\x001":    ErrNUL,
		"SELECT 1\x00":   ErrNUL,
		"SELECT '\xff'":  ErrEncoding,
		"SELECT \xc3":    ErrEncoding,
		"SELECT 'é', 1x": ErrNumber,
	} {
		res, err := NewScanner(testSecret).Scan([]byte(text), &Options{ServerMajor: 17})
		if !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", text, err, want)
		}
		if res.Key != (Key{}) {
			t.Errorf("%q: an error comes with a key", text)
		}
	}
}
