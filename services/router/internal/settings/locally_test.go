package settings

import (
	"slices"
	"testing"
)

// What is set until the end of the transaction matters by its name.
func TestLocally(t *testing.T) {
	for name, want := range map[string]struct {
		change Change
		stays  bool
	}{
		"app.user": {}, "work_mem": {}, "statement_timeout": {},
		"search_path": {change: Change{searchPath, unsure}},
		"role":        {change: Change{role, unsure}},
		"":            {change: Change{anything, unsure}},
		"seed":        {stays: true}, "session_authorization": {stays: true},
	} {
		c, ok := Locally([]string{"app.other", name})
		if ok == want.stays || ok && !c.Besides {
			t.Errorf("%q: %+v, %v", name, c, ok)
			continue
		}
		var changes []Change
		if want.change != (Change{}) {
			changes = []Change{want.change}
		}
		if !slices.Equal(c.Changes, changes) || (c.Kind == Local) != (changes != nil) || Only([]Command{c}) {
			t.Errorf("%q: %+v", name, c)
		}
		if roams := name == "search_path" || name == ""; Roams([]Command{c}) != roams {
			t.Errorf("%q leads to temporary tables: %v", name, !roams)
		}
	}
}

// It is not known what is set until that is rolled back, set to something that is known, or the
// transaction ends.
func TestUnsure(t *testing.T) {
	path, _ := Locally([]string{"search_path"})
	zone, _ := Locally([]string{"timezone"})
	unknown, _ := Locally([]string{""})
	known := Command{Kind: Local, Changes: []Change{{"search_path", "search_path = a"}}}
	for name, c := range map[string]struct {
		run             []Command
		parsing, roamed bool
	}{
		"nothing":       {nil, false, false},
		"a path":        {[]Command{path}, true, true},
		"a zone":        {[]Command{zone}, true, false},
		"anything":      {[]Command{unknown, known}, true, true},
		"then known":    {[]Command{path, known}, false, false},
		"then unknown":  {[]Command{known, path}, true, true},
		"rolled back":   {[]Command{{Kind: Savepoint, Name: "a"}, path, {Kind: RollbackTo, Name: "a"}}, false, false},
		"released":      {[]Command{{Kind: Savepoint, Name: "a"}, path, {Kind: Release, Name: "a"}}, true, true},
		"committed":     {[]Command{path, {Kind: Commit}}, false, false},
		"of all, reset": {[]Command{unknown, {Kind: Set, Changes: []Change{{}}}}, false, false}, // and it is lost
	} {
		var tr Tracker
		tr.Ran(&Command{Kind: Begin}, nil)
		for i := range c.run {
			tr.Ran(&c.run[i], nil)
		}
		if parsing, roams := tr.Unsure(); parsing != c.parsing || roams != c.roamed {
			t.Errorf("%s: %v, %v", name, parsing, roams)
		}
	}
	both, _ := Locally([]string{"search_path", "timezone"})
	for name, again := range map[string][]Command{"one": {unknown}, "two": {both}, "two in turn": {unknown, path}, "below savepoints": {{Kind: Savepoint, Name: "a"}, both, {Kind: Release, Name: "a"}}} {
		var tr Tracker
		for range 10 * maxChanges {
			for i := range again {
				tr.Ran(&again[i], nil)
			}
		}
		if tr.Lost() {
			t.Errorf("%s: it is lost by being set again and again", name)
		}
	}
}

// What is at its default until the end of the transaction RESET ALL passes by: it is back behind it.
func TestResetOfAllBehindUnknown(t *testing.T) {
	tenant, _ := Locally([]string{"app.tenant"})
	all := Command{Kind: Set, Changes: []Change{{}}}
	for name, c := range map[string]struct {
		run  []Command
		lost bool
	}{
		"alone":          {[]Command{all}, false},
		"behind":         {[]Command{tenant, all}, true},
		"in front":       {[]Command{all, tenant}, false},
		"in a savepoint": {[]Command{{Kind: Savepoint, Name: "a"}, tenant, {Kind: Release, Name: "a"}, all}, true},
		"rolled back":    {[]Command{{Kind: Savepoint, Name: "a"}, tenant, {Kind: RollbackTo, Name: "a"}, all}, false},
		"another one's":  {[]Command{tenant, {Kind: Commit}, all}, false},
	} {
		tr := Tracker{list: Of([]Change{{"app.tenant", "app.tenant = '1'"}})}
		for i := range c.run {
			tr.Ran(&c.run[i], nil)
		}
		if tr = Arrive(tr.Depart()); tr.Lost() != c.lost {
			t.Errorf("%s: lost %v", name, tr.Lost())
		}
	}
}

// What is set for good with a role that is not known stays lost if that is set again.
func TestRoleSetAgain(t *testing.T) {
	as, _ := Locally([]string{role})
	var tr Tracker
	for _, c := range []Command{as, {Kind: Set, Changes: []Change{{"work_mem", "work_mem = 1"}}}, as, {Kind: Commit}} {
		tr.Ran(&c, nil)
	}
	if !tr.Lost() {
		t.Error("it is followed")
	}
}

func TestMakes(t *testing.T) {
	for text, want := range map[string]bool{
		"INSERT INTO t VALUES ('create')":                                         false,
		"insert /* x */ into t select 1":                                          false,
		"MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE":                   false,
		`UPDATE "create" SET "into" = 1`:                                          false,
		"CREATE TABLE t ()":                                                       true,
		"SELECT 1; create view v as select 1":                                     true,
		"EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1":                              true,
		"SELECT 1 AS a INTO t":                                                    true,
		"WITH x AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * INTO y FROM x": true,
		"SELECT 'a": true,
		"":          false,
	} {
		if Makes([]byte(text)) != want {
			t.Errorf("%s makes something: %v", text, !want)
		}
	}
}

// TestTemporary looks at paths as SHOW gives them.
func TestTemporary(t *testing.T) {
	for path, want := range map[string]bool{
		`"$user", public`: false, "": false, "pg_temp": true, "pg_temp, public": true, `"$user", public, pg_temp`: true,
		`"PG_TEMP"`: true, "pg_catalog, pg_temp": false, "pg_catalog,public,pg_temp": false, `public, "pg_catalog", pg_temp`: false,
		"pg_temp_3": true, "my_pg_temp": false,
	} {
		if Temporary(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// A role that is given up takes the right to set something along, but not an application's own.
func TestSettingsOfARoleThatIsGivenUp(t *testing.T) {
	set := func(name string) Command {
		return Command{Kind: Set, Changes: []Change{{name, name + " = 1"}}}
	}
	acts := Command{Kind: Local, Changes: []Change{{role, "role r"}}}
	some, _ := Locally([]string{"role"})
	unknown, _ := Locally([]string{""})
	for name, lost := range map[string]bool{"app.user": false, "auto_explain.log_min_duration": true, "plpgsql.extra_errors": true, "log_statement": true} {
		for _, by := range []Command{acts, some, unknown} {
			var tr Tracker
			for _, c := range []Command{{Kind: Begin}, by, set(name), {Kind: Commit}} {
				tr.Ran(&c, []byte("COMMIT"))
			}
			if tr.Lost() != lost {
				t.Errorf("%s, as a local role: lost %v", name, tr.Lost())
			}
		}
		var tr Tracker
		for _, c := range []Command{set(role), set(name), {Kind: Set, Changes: []Change{{role, "role s"}}}} {
			tr.Ran(&c, nil)
			tr.Ready(true)
		}
		if tr.Lost() != lost {
			t.Errorf("%s, as a role before another: lost %v", name, tr.Lost())
		}
	}
}
