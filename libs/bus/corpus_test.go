package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// messages has a decoder for each kind, which gives the message encoded again.
var messages = map[string]func([]byte) ([]byte, error){
	"Lag": again[Lag], "LagSnapshot": again[LagSnapshot], "Topology": again[Topology], "Want": again[Want],
	"Verdict": again[Verdict], "Flush": again[Flush], "VerdictSnapshot": again[VerdictSnapshot],
}

func again[M Message](data []byte) ([]byte, error) {
	m, err := Decode[M](data)
	if err != nil {
		return nil, err
	}
	return Encode(m)
}

// corpus calls f with each message that was ever published in version 1. Files are
// only added there: services of that build may run beside this one.
func corpus(t *testing.T, f func(t *testing.T, kind string, text []byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/v1/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		kind, _, _ := strings.Cut(name, ".")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if messages[kind] == nil {
				t.Fatalf("%s is of no known kind", file)
			}
			f(t, kind, text)
		})
	}
}

func object(t *testing.T, text []byte) (m map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Every field of every message of version 1 is read, and means what it meant.
func TestMessagesOfVersion1AreUnderstoodForEver(t *testing.T) {
	met := map[string]map[string]bool{}
	corpus(t, func(t *testing.T, kind string, text []byte) {
		encoded, err := messages[kind](text)
		if err != nil {
			t.Fatal(err)
		}
		then, now := object(t, text), object(t, encoded)
		if !reflect.DeepEqual(then, now) {
			t.Errorf("read as\n%s\nand it was\n%s", encoded, text)
		}
		if met[kind] == nil {
			met[kind] = map[string]bool{}
		}
		for key := range then {
			met[kind][key] = true
		}
	})
	for kind, typ := range map[string]reflect.Type{
		"Lag": reflect.TypeFor[Lag](), "LagSnapshot": reflect.TypeFor[LagSnapshot](), "Topology": reflect.TypeFor[Topology](), "Want": reflect.TypeFor[Want](),
		"Verdict": reflect.TypeFor[Verdict](), "Flush": reflect.TypeFor[Flush](), "VerdictSnapshot": reflect.TypeFor[VerdictSnapshot](),
	} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !met[kind][name] {
				t.Errorf("no message of the corpus has the field %q of %s: add one that does", name, kind)
			}
		}
	}
}

// The next build may add fields anywhere under version 1: they are skipped.
func TestFieldsOfTheNextBuildAreSkipped(t *testing.T) {
	corpus(t, func(t *testing.T, kind string, text []byte) {
		want, err := messages[kind](text)
		if err != nil {
			t.Fatal(err)
		}
		more := strings.ReplaceAll(string(text), "{", `{"later":{"a":[1,null,"}"]},`)
		more = strings.ReplaceAll(more, `,}`, `}`)
		if kind == "Verdict" { // detail is passed on as it is
			more = strings.Replace(string(text), "{", `{"later":[1],`, 1)
		}
		got, err := messages[kind]([]byte(more))
		if err != nil || string(got) != string(want) {
			t.Errorf("got %s, %v\nof %s", got, err, more)
		}
	})
}

// What has another version may mean anything, and is told apart from what is broken.
func TestMessagesOfAnotherVersionAreIgnored(t *testing.T) {
	corpus(t, func(t *testing.T, kind string, text []byte) {
		for _, v := range []int{0, 2, 3} {
			other := strings.Replace(string(text), `"v":1`, fmt.Sprintf(`"v":%d`, v), 1)
			if _, err := messages[kind]([]byte(other)); !errors.Is(err, ErrVersion) {
				t.Errorf("version %d: %v", v, err)
			}
		}
		if _, err := messages[kind](text[:len(text)/2]); err == nil || errors.Is(err, ErrVersion) {
			t.Errorf("half of it: %v", err)
		}
	})
}
