package settings

import "testing"

func TestCalledOwn(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT set_config('pgpilot.route', 'primary', false)":                             "pgpilot.route",
		"SELECT 1; SELECT set_config('PgPilot.Route', 'primary', false); SELECT 2":         "pgpilot.route",
		"PREPARE p AS SELECT set_config('pgpilot.fencing', $1, false)":                     "pgpilot.fencing",
		"SELECT pg_catalog.\"set_config\" ( E'pgpilot.freshness' , '5s', true) FROM t":     "pgpilot.freshness",
		"SELECT set_config('a.b', 'c', true), set_config('pgpilot.route', 'x' || y, true)": "pgpilot.route",
		"SELECT set_config(setting_name => 'pgpilot.route', new_value => 'x')":             "pgpilot.route",
		"SELECT SET_CONFIG(/* name */ $$pgpilot.route$$, 'x', true)":                       "pgpilot.route",
		"SELECT set_config(U&'pgpilot.route', 'x', true)":                                  "pgpilot.route",
		"SELECT set_config('app.note', 'pgpilot.route', true)":                             "",
		"SELECT set_config($1, 'pgpilot.route', true)":                                     "",
		"SELECT set_config, 'pgpilot.route' FROM pgpilot.settings":                         "",
		"DO $$ BEGIN PERFORM set_config('pgpilot.route', 'x', false); END $$":              "",
		"SELECT current_setting('pgpilot.route', true)":                                    "",
		"SELECT set_config('pgpilotx.route', 'x', false)":                                  "",
		"SELECT set_config(":                        "",
		"SELECT set_config(setting_name":            "",
		"SELECT set_config('pgpilot.route', 'x":     "",
		"SELECT set_config(length('pgpilot.route')": "",
	} {
		if name, ok := CalledOwn([]byte(text)); name != want && ok || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", text, name, ok, want)
		}
	}
}

func TestInsideString(t *testing.T) {
	const text = "SELECT 'é', $$ x $$ , a"
	want := map[int]bool{8: true, 9: true, 13: true, 15: true, 18: true}
	for i := range len(text) + 2 {
		if got := InsideString([]byte(text), i); got != (want[i] || i > 12 && i < 19) {
			t.Errorf("character %d: %v", i, got)
		}
	}
	if InsideString([]byte("SELECT 'x"), 8) {
		t.Error("what cannot be read has no strings")
	}
}

func TestExecutedOwn(t *testing.T) {
	const prepared = "PREPARE p (text, text, bool) AS SELECT set_config('app.x', $1, true), set_config($2, $1, $3)"
	for _, c := range []struct{ prepared, execute, want string }{
		{prepared, "EXECUTE p ('primary', 'pgpilot.route', false)", "pgpilot.route"},
		{prepared, "EXECUTE p (lower('a, b'), 'PGPILOT.route'::text, false)", "pgpilot.route"},
		{prepared, "EXECUTE p (ARRAY['a', 'b'], 'pgpilot.route', false)", "pgpilot.route"},
		{prepared, "EXECUTE \"p\" ('pgpilot.route', 'app.x', false)", ""},
		{prepared, "EXECUTE p (f('x', 'pgpilot.route'), 'app.x', false)", ""},
		{prepared, "EXECUTE p", ""},
		{prepared, "EXECUTE p (", ""},
		{"SELECT $1", "EXECUTE p ('pgpilot.route')", ""},
		{"SELECT set_config($1, $2, false)", "EXECUTE p ('pgpilot.route', 'x')", "pgpilot.route"},
	} {
		if name, ok := ExecutedOwn([]byte(c.prepared), []byte(c.execute)); name != c.want && ok || ok != (c.want != "") {
			t.Errorf("%s by %s: %q, %v; want %q", c.prepared, c.execute, name, ok, c.want)
		}
	}
}
