package config

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// Whatever a file holds, it is refused with a reason or accepted; what is
// accepted keeps its meaning when it is written out again.
func FuzzParse(f *testing.F) {
	older, err := os.ReadFile("testdata/older.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(older)
	for _, s := range []string{
		"", "{", "null", "[]", "{" + minimal + "}", `{"a": 1e999}`, "\ufeff{}", `{"pool":{"pool":{}}}`,
		`{"replicas": [{"port": -1}, null, [], "[:1"]}`, strings.Repeat("[", 20000), `{"users": {"name": 1}} //`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "f")
		if err != nil {
			if c != nil || !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("refused with %+v and %q", c, err)
			}
			return
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(b, "f")
		if err != nil {
			t.Fatalf("written out as %s: %v", b, err)
		}
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("written out as %s and read as\n%s\nnot\n%s", b, again, c)
		}
	})
}
