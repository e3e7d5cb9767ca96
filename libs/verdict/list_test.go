package verdict

import (
	"reflect"
	"testing"
)

func TestAListOfSettingsIsEvaluated(t *testing.T) {
	for array, want := range map[string][]Change{
		`[["role", "a"], ["app.user", "\u0062"], ["c", null, 5]]`: nil,
		`[["role", "a"], ["app.user", "\u0062"], ["c", null]]`: {{Name: "role", Value: "a", Local: true}, {Name: "app.user", Value: "b", Local: true},
			{Name: "c", Default: true, Local: true}},
		`[]`: {}, `null`: nil, `{}`: nil, `[{}]`: nil, `[["a"]]`: nil, `[[null, "a"]]`: nil, `[["a", 5]]`: nil, `[["a", "b"]`: nil, `[5]`: nil,
	} {
		v := Verdict{Effects: Unproven, Detail: &Detail{Parts: []Part{{Locals: []Operand{{}}, List: &Operand{Param: 1}}}}}
		x := Execution{Text: []byte("SELECT set_config(el->>0, el->>1, true) FROM json_array_elements($1) el"), Param: func(int) ([]byte, bool, bool) {
			return []byte(array), false, true
		}}
		once, got := v.Evaluate(x)
		if !reflect.DeepEqual(got, want) || (once.Effects == 0) != (want != nil) {
			t.Errorf("%s: %+v %v, want %+v", array, got, once.Effects, want)
		}
		names := []string{""}
		if want != nil {
			names = nil
		}
		for _, c := range want {
			names = append(names, c.Name)
		}
		if got := v.Detail.Parts[0].LocalNames(x); !reflect.DeepEqual(got, names) {
			t.Errorf("%s: %q, want %q", array, got, names)
		}
		x.Param = nil
		if once, got := v.Evaluate(x); got != nil || once.Effects != Unproven {
			t.Errorf("without the parameter: %+v %v", got, once.Effects)
		}
	}
}
