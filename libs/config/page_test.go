package config

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/config.md"

// row is what the page says about a key.
type row struct {
	kind, byDefault string
	restart         bool
}

var (
	backticked  = regexp.MustCompile("`([^`]+)`")
	literalCell = regexp.MustCompile("^`([^`]+)`$")
)

// readPage collects the rows of all tables of the page.
func readPage(t *testing.T) map[string]row {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 {
			t.Fatalf("not five cells: %s", line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for _, key := range backticked.FindAllStringSubmatch(cells[1], -1) {
			if _, twice := rows[key[1]]; twice {
				t.Errorf("%s is on the page twice", key[1])
			}
			rows[key[1]] = row{cells[2], cells[3], cells[4] == "yes"}
		}
		if cells[5] == "" {
			t.Errorf("%s has no meaning", cells[1])
		}
	}
	return rows
}

// The page and the struct name the same keys, with the same types and defaults.
func TestThePageIsComplete(t *testing.T) {
	rows := readPage(t)
	var check func(v reflect.Value, path string, fixed, inEntry bool)
	one := func(v reflect.Value, path, kind string, fixed, inEntry bool) {
		r, ok := rows[path]
		delete(rows, path)
		switch {
		case !ok:
			t.Errorf("%s is not on the page", path)
			return
		case r.kind != kind:
			t.Errorf("%s is called a %s, it is a %s", path, r.kind, kind)
		case r.restart != fixed:
			t.Errorf("%s: the page says restart %t, the struct %t", path, r.restart, fixed)
		case inEntry:
			return // an entry of a list has no default of its own
		}
		literal := literalCell.FindStringSubmatch(r.byDefault)
		if literal == nil { // in words
			if !v.IsZero() && !(v.Kind() == reflect.Slice && v.Len() == 0) {
				t.Errorf("%s: the default is %v, not %q", path, v, r.byDefault)
			}
			return
		}
		said := reflect.New(v.Type())
		if err := json.Unmarshal([]byte(literal[1]), said.Interface()); err != nil {
			t.Errorf("%s: default %s: %v", path, literal[1], err)
		} else if !reflect.DeepEqual(said.Elem().Interface(), v.Interface()) {
			t.Errorf("%s: the page says %s, the default is %v", path, literal[1], v)
		}
	}
	check = func(v reflect.Value, path string, fixed, inEntry bool) {
		switch {
		case v.Type() == reflect.TypeFor[Duration]():
			one(v, path, "duration", fixed, inEntry)
		case v.Type() == reflect.TypeFor[Backend]():
			if !inEntry {
				one(v, path, "server", fixed, inEntry)
			}
			check(reflect.ValueOf(backendObject{}), path, fixed, true)
		case v.Kind() == reflect.Struct:
			for _, f := range fieldsOf(v.Type()) {
				check(v.Field(f.index), join(path, f.key), fixed || f.fixed, inEntry)
			}
		case v.Kind() == reflect.Slice:
			entries := map[reflect.Type]string{reflect.TypeFor[Backend](): "servers", reflect.TypeFor[User](): "users", reflect.TypeFor[Database](): "databases", reflect.TypeFor[string](): "texts"}
			one(v, path, "list of "+entries[v.Type().Elem()], fixed, inEntry)
			if v.Type().Elem().Kind() != reflect.String {
				check(reflect.Zero(v.Type().Elem()), path+"[]", fixed, true)
			}
		default:
			kinds := map[reflect.Kind]string{reflect.String: "text", reflect.Int: "number", reflect.Bool: "switch"}
			one(v, path, kinds[v.Kind()], fixed, inEntry)
		}
	}
	check(reflect.ValueOf(*Default()), "", false, false)
	for key := range rows {
		t.Errorf("%s is on the page, but there is no such key", key)
	}
}

// The examples of the page work.
func TestThePagesExamplesAreAccepted(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1)
	if len(examples) < 2 {
		t.Fatalf("only %d examples found", len(examples))
	}
	for _, e := range examples {
		if _, err := Parse(e[1], page); err != nil {
			t.Errorf("%v in\n%s", err, e[1])
		}
	}
}
