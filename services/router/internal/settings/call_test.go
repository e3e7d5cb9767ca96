package settings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

func TestCalled(t *testing.T) {
	set := func(name, value string) verdict.Change { return verdict.Change{Name: name, Value: value} }
	local := func(c verdict.Change) verdict.Change { c.Local = true; return c }
	for _, c := range []struct {
		calls []verdict.Change
		want  string // what is set, "no" for what is not followed
	}{
		{[]verdict.Change{set("Work_Mem", "5MB")}, `set work_mem="work_mem" TO '5MB'`},
		{[]verdict.Change{set("app.user-id", `it's \`)}, `set app.user-id="app"."user-id" TO E'it''s \\'`},
		{[]verdict.Change{set("app.user", `\'; SET ROLE admin; --`)}, `set app.user="app"."user" TO E'\\''; SET ROLE admin; --'`},
		{[]verdict.Change{set("user.default", "")}, `set user.default="user"."default" TO ''`},
		{[]verdict.Change{set(`a".b`, "1")}, `set a".b="a"""."b" TO '1'`},
		{[]verdict.Change{set("sort_mem", "5MB")}, `set work_mem="sort_mem" TO '5MB'`},
		{[]verdict.Change{{Name: "work_mem", Default: true}}, `set work_mem=`},
		{[]verdict.Change{set("role", "alice"), set("app.a", "1")}, `set role="role" TO 'alice', app.a="app"."a" TO '1'`},
		{[]verdict.Change{local(set("role", "alice")), local(set("search_path", "A,b"))}, `local role="role" TO 'alice', search_path="search_path" TO "A,b"`},
		{[]verdict.Change{set("role", "alice"), local(set("app.a", "1"))}, "no"},
		{[]verdict.Change{set("transaction_read_only", "on")}, "none"},
		{[]verdict.Change{set("search_path", `"$user", s_1, public`)}, `set search_path="search_path" TO "$user", "s_1", "public"`},
		{[]verdict.Change{set("search_path", "s1,public")}, "no"},
		{[]verdict.Change{set("search_path", "S1")}, "no"},
		{[]verdict.Change{set("search_path", "user")}, "no"},
		{[]verdict.Change{set("search_path", "")}, "no"},
		{[]verdict.Change{set("search_path", "pg_temp, public")}, "no"},
		{[]verdict.Change{local(set("search_path", "pg_temp"))}, "no"},
		{[]verdict.Change{set("client_encoding", "LATIN1")}, "no"},
		{[]verdict.Change{local(set("standard_conforming_strings", "off"))}, "no"},
		{[]verdict.Change{set("session_authorization", "alice")}, "no"},
		{[]verdict.Change{set("pgpilot.route", "primary")}, "no"},
		{[]verdict.Change{set("a."+strings.Repeat("x", 64), "1")}, "no"},
		{[]verdict.Change{set("a.", "1")}, "no"},
		{[]verdict.Change{local(set("a."+strings.Repeat("x", 64), "1"))}, "local a." + strings.Repeat("x", 64) + `="a"."` + strings.Repeat("x", 64) + `" TO '1'`},
	} {
		got := "no"
		if cmd, ok := Called(c.calls); ok {
			var sets []string
			for _, ch := range cmd.Changes {
				sets = append(sets, ch.Name+"="+ch.SQL)
			}
			got = strings.TrimSpace(map[Kind]string{None: "none", Set: "set ", Local: "local "}[cmd.Kind] + strings.Join(sets, ", "))
		}
		if got != c.want {
			t.Errorf("%+v:\n\tgot  %s\n\twant %s", c.calls, got, c.want)
		}
	}
}

// What is local of an application's parameter may be set for each row of a long
// transaction.
func TestLocalValuesReplaceEachOther(t *testing.T) {
	var tr Tracker
	tr.Ran(&Command{Kind: Begin}, nil)
	tr.Ran(&Command{Kind: Set, Changes: []Change{{"app.user", "app.user TO 0"}}}, nil)
	for i := range 10 * maxChanges {
		tr.Ran(&Command{Kind: Local, Changes: []Change{{"app.user", fmt.Sprintf("app.user TO %d", i)}, {"app.x", "app.x TO 1"}}}, nil)
	}
	now := tr.Now()
	if tr.Lost() || len(now.Settings()) != 2 || now.Settings()[0].SQL == "app.user TO 0" {
		t.Errorf("lost %v, %v is set", tr.Lost(), now.Settings())
	}
	tr.Ran(&Command{Kind: Commit}, []byte("COMMIT"))
	if l := tr.List().Settings(); len(l) != 1 || l[0].SQL != "app.user TO 0" {
		t.Errorf("afterwards %v is set", l)
	}
}
