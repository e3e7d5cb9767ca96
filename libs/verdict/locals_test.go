package verdict

import (
	"slices"
	"testing"
)

func TestNamesOfLocalSettings(t *testing.T) {
	literal, param := Operand{Literal: 1}, Operand{Param: 1}
	params := func(n int) ([]byte, bool, bool) { return []byte("App.User"), false, n == 1 }
	for _, c := range []struct {
		text string
		of   Operand
		want string
	}{
		{"SELECT set_config('Search_Path', f(), true)", literal, "search_path"},
		{"SELECT set_config('Search_Path', f(), true)", param, "app.user"},
		{"SELECT set_config(5, f(), true)", literal, ""},
		{"SELECT set_config('a", literal, ""},
		{"SELECT set_config('a", param, "app.user"},
		{"SELECT 'x'", Operand{Param: 2}, ""},
		{"SELECT 'x'", Operand{Literal: 2}, ""},
		{"SELECT 'x'", Operand{}, ""},
		{"SET LOCAL ROLE x", Operand{Word: "role"}, "role"},
	} {
		p := Part{Locals: []Operand{c.of}}
		if got := p.LocalNames(Execution{Text: []byte(c.text), ServerMajor: 17, Param: params}); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s, %+v: %q, want %q", c.text, c.of, got, c.want)
		}
	}
	if got := (&Part{}).LocalNames(Execution{}); got != nil {
		t.Errorf("of none: %q", got)
	}
}
