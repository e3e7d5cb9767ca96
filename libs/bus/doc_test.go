package bus

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The page is the interface's documentation: every field of every message is in
// its message's section, or in the section of the values that several share.
func TestEveryFieldIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/bus.md")
	if err != nil {
		t.Fatal(err)
	}
	values := section(t, string(page), "## Values")
	for _, m := range []any{Lag{}, LagSnapshot{}, Topology{}, Want{}, Verdict{}, Flush{}, VerdictSnapshot{}} {
		typ := reflect.TypeOf(m)
		text := section(t, string(page), "### "+typ.Name()) + values
		for _, name := range fields(typ) {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("docs/bus.md does not name %s of %s", name, typ.Name())
			}
		}
	}
	for _, subject := range []string{
		SubjectLag + "<backend>", SubjectLagSnapshot, SubjectTopology, SubjectTopologySnapshot, SubjectFenceWant,
		SubjectVerdict + "<database>", SubjectVerdictFlush, SubjectVerdictSnapshot,
	} {
		if !strings.Contains(string(page), "`"+subject+"`") {
			t.Errorf("docs/bus.md does not name the subject %s", subject)
		}
	}
}

// section is the page from a heading to the next one.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/bus.md has no section %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n##")
	return text
}

// fields lists the JSON names of a message, those of nested objects included.
// A message within a message has a section of its own.
func fields(typ reflect.Type) []string {
	var out []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && inner != reflect.TypeFor[Lag]() &&
			inner != reflect.TypeFor[Verdict]() && inner != reflect.TypeFor[Flush]() {
			out = append(out, fields(inner)...)
		}
	}
	return out
}
