package verdict

import "testing"

func TestTypesAreJudgedWithTheText(t *testing.T) {
	for _, c := range []struct {
		types []uint32
		want  string
	}{
		{nil, ""},
		{[]uint32{0, 23, FirstUserType - 1}, ""},
		{[]uint32{16400}, "SELECT $1\n;SELECT NULL::pg_catalog.\"oid 16400\""},
		{[]uint32{23, 16400, 0, FirstUserType}, "SELECT $1\n;SELECT NULL::pg_catalog.\"oid 16400\", NULL::pg_catalog.\"oid 12000\""},
	} {
		got, another := AppendTyped(nil, []byte("SELECT $1"), c.types)
		if string(got) != c.want || another != (c.want != "") {
			t.Errorf("%d: %q, %v; want %q", c.types, got, another, c.want)
		}
	}
	for name, want := range map[string]uint32{"oid 16400": 16400, "oid 4294967295": 1<<32 - 1} {
		if n, ok := TypeNumber(name); !ok || n != want {
			t.Errorf("%q is number %d, %v", name, n, ok)
		}
	}
	for _, name := range []string{"oid", "oid ", "oid x", "oid -1", "oid 4294967296", "int4"} {
		if n, ok := TypeNumber(name); ok {
			t.Errorf("%q is number %d", name, n)
		}
	}
}
