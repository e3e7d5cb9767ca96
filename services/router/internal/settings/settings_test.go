package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// show writes commands as tests compare them.
func show(cs []Command) string {
	var out []string
	for _, c := range cs {
		s := [...]string{"none", "set", "local", "begin", "commit", "rollback", "savepoint", "release", "rollback to", "listen", "unlisten", "prepare"}[c.Kind]
		if c.Name != "" {
			s += " " + c.Name
		}
		for _, ch := range c.Changes {
			s += fmt.Sprintf(" %q=%q", ch.Name, ch.SQL)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

// longComment is longer than what is read of other statements.
var longComment = "/*" + strings.Repeat(" ", MaxText) + "*/"

// TestParseOwn reads statements about the router's parameters, and leaves all others
// alone.
func TestParseOwn(t *testing.T) {
	set := func(value string) Own { return Own{Name: "pgpilot.route", Value: value} }
	for text, want := range map[string][]Own{
		`SET pgpilot.route = primary`:                     {set("primary")},
		`set PgPilot.Route to 'Primary';`:                 {set("Primary")},
		`SET "pgpilot"."route" TO "a b"`:                  {set("a b")},
		`SET "pgpilot.route" = E'\x41'`:                   {set("A")},
		`SET SESSION pgpilot.route = $$x$$`:               {set("x")},
		`/* a */ SET pgpilot.route = -1.5 -- b`:           {set("-1.5")},
		`SET pgpilot.route = +15`:                         {set("15")},
		`SET LOCAL pgpilot.route TO a`:                    {{Name: "pgpilot.route", Value: "a", Local: true}},
		`SET pgpilot.route TO DEFAULT`:                    {{Name: "pgpilot.route", Default: true}},
		`SET pgpilot.route = 'default'`:                   {set("default")},
		`SET pgpilot.route = a, b`:                        {{Name: "pgpilot.route", Value: "a", Several: true}},
		`RESET pgpilot.route`:                             {{Verb: ResetOwn, Name: "pgpilot.route"}},
		`show pgpilot.any`:                                {{Verb: ShowOwn, Name: "pgpilot.any"}},
		`SHOW pgpilot.route;; SET pgpilot.route = a`:      {{Verb: ShowOwn, Name: "pgpilot.route"}, set("a")},
		`SET U&"pgpilot".route = U&'a b'`:                 {set("a b")},
		`SET "pgpilot" . route = a`:                       {set("a")},
		`SET pgpilot./* a */route = a`:                    {set("a")},
		longComment + `SET pgpilot.route = a`:             {set("a")},
		`SHOW PGPilot.route` + longComment:                {{Verb: ShowOwn, Name: "pgpilot.route"}},
		`SET pgpilot.route = U&'\0061'`:                   nil,
		`SET pgpilot.route = U&'a' UESCAPE '!'`:           nil,
		`SET pgpilot.route = a; SELECT 1`:                 nil,
		`SET pgpilot.route`:                               nil,
		`SET pgpilot.route = `:                            nil,
		`SET pgpilot.route = a b`:                         nil,
		`SET pgpilot.route = -'a'`:                        nil,
		`SET pgpilot.route = 250ms`:                       nil,
		`SET pgpilot.route FROM CURRENT`:                  nil,
		`SET pgpilots.route = a`:                          nil,
		`SET a = 'pgpilot.route'`:                         nil,
		`SHOW pgpilot`:                                    nil,
		`SHOW pgpilot.route x`:                            nil,
		`RESET ALL -- pgpilot`:                            nil,
		`SELECT 'SET pgpilot.route = a'`:                  nil,
		`SET pgpilot.route = 'a`:                          nil,
		``:                                                nil,
		`SET pgpilot.` + strings.Repeat("x", 64) + ` = a`: nil,
	} {
		got, ok := ParseOwn([]byte(text))
		if ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%s is %+v, %v; want %+v", text, got, ok, want)
		}
		if _, ok := Parse([]byte(text)); ok && want != nil {
			t.Errorf("%s is taken for a server's", text)
		}
	}
	for text, want := range map[string]string{
		`BEGIN; SET LOCAL pgpilot.route = a`:    "pgpilot.route",
		`SELECT 1; SHOW PGPILOT.session`:        "pgpilot.session",
		`SELECT 1; SHOW PgPilot.session`:        "pgpilot.session",
		`SELECT 1.5; RESET "pgpilot".route`:     "pgpilot.route",
		"SELECT 1;SHOW pgpilot.a" + longComment: "pgpilot.a",
		`SELECT 'SET pgpilot.route = a'`:        "",
		`SET a = 1; SELECT 'pgpilot.route'`:     "",
		`SELECT 1; -- SET pgpilot.route = a`:    "",
		`INSERT INTO pgpilot.route VALUES(1)`:   "",
	} {
		got := ""
		if _, own := Part([]byte(text)); len(own) > 0 {
			got = own[0].Name
		}
		if got != want {
			t.Errorf("in %s there is %q, want %q", text, got, want)
		}
	}
}

// TestOwnAreNotForServers: what is set of the router's parameters makes no difference
// to connections, but ends with the transaction as everything does.
func TestOwnAreNotForServers(t *testing.T) {
	var tr Tracker
	run := func(kind Kind, name, value string) {
		tr.Ran(&Command{Kind: kind, Changes: []Change{{name, value}}}, nil)
	}
	run(Set, "pgpilot.route", "primary")
	tr.Ready(true)
	if l := tr.List(); l.Hash() != (Hash{}) || l.AtParse() != (Hash{}) || string(l.AppendSQL(nil)) != "RESET ROLE;RESET ALL" || !l.Has("pgpilot.route") {
		t.Errorf("connections are given %s", l.AppendSQL(nil))
	}
	run(Set, "pgpilot.route", "replica")
	run(Set, "a", "a = 1")
	if l := tr.Now(); l.settings[0].SQL != "replica" {
		t.Errorf("in the transaction: %v", l.Settings())
	}
	tr.Failed()
	tr.Ready(true)
	if got := tr.List().Settings(); !slices.Equal(got, []Change{{"pgpilot.route", "primary"}}) {
		t.Errorf("after it has failed: %v", got)
	}
	run(Set, "", "")
	tr.Ready(true)
	if got := tr.List().Settings(); len(got) != 0 {
		t.Errorf("after RESET ALL: %v", got)
	}
}

// TestParse reads every form of the statements (PostgreSQL documentation, "SET",
// "RESET", "SET ROLE", "SET TRANSACTION", "BEGIN", "SAVEPOINT", …).
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`SET work_mem = 64`:                              `set "work_mem"="work_mem = 64"`,
		`set Work_Mem to '64MB';`:                        `set "work_mem"="Work_Mem to '64MB'"`,
		`SET SESSION work_mem TO '64MB'`:                 `set "work_mem"="work_mem TO '64MB'"`,
		`SET LOCAL work_mem TO '64MB'`:                   `local "work_mem"="work_mem TO '64MB'"`,
		`SET "Work_mem" = 1`:                             `set "work_mem"="\"Work_mem\" = 1"`,
		`SET sort_mem = 1`:                               `set "work_mem"="sort_mem = 1"`,
		`SET app.user = 'it''s; me'`:                     `set "app.user"="app.user = 'it''s; me'"`,
		`SET datestyle TO ISO, MDY`:                      `set "datestyle"="datestyle TO ISO, MDY"`,
		`SET geqo = on`:                                  `set "geqo"="geqo = on"`,
		`SET enable_seqscan = -1.5`:                      `set "enable_seqscan"="enable_seqscan = -1.5"`,
		`SET search_path TO "$user", public`:             `set "search_path"="search_path TO \"$user\", public"`,
		`SET SCHEMA 'a'`:                                 `set "search_path"="SCHEMA 'a'"`,
		`SET TIME ZONE 'UTC'`:                            `set "timezone"="TIME ZONE 'UTC'"`,
		`SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE`: `set "timezone"="TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE"`,
		`SET LOCAL TIME ZONE DEFAULT`:                    `local "timezone"=""`,
		`SET TIME ZONE LOCAL`:                            `set "timezone"=""`,
		`SET timezone = 'UTC'`:                           `set "timezone"="timezone = 'UTC'"`,
		`SET XML OPTION DOCUMENT`:                        `set "xmloption"="XML OPTION DOCUMENT"`,
		`SET ROLE app`:                                   `set "role"="ROLE app"`,
		`SET app.user = '\'`:                             `set "app.user"="app.user = E'\\\\'"`,
		"SET app.user TO 'a\\'\n'''; SET ROLE admin; --', E'\\\\', $$\\$$": `set "app.user"="app.user TO E'a\\\\''; SET ROLE admin; --', E'\\\\', $$\\$$"`,
		`SET ROLE '\'`:                     `set "role"="ROLE E'\\\\'"`,
		`SET ROLE NONE`:                    `set "role"="ROLE NONE"`,
		`SET SESSION ROLE 'app'`:           `set "role"="ROLE 'app'"`,
		`SET role = 'app'`:                 `set "role"="role = 'app'"`,
		`SET statement_timeout TO DEFAULT`: `set "statement_timeout"=""`,
		`RESET statement_timeout`:          `set "statement_timeout"=""`,
		`RESET TIME ZONE`:                  `set "timezone"=""`,
		`RESET ROLE`:                       `set "role"=""`,
		`RESET ALL`:                        `set ""=""`,
		`SET /* a */ work_mem = 1 -- b`:    `set "work_mem"="work_mem = 1"`,
		`SET work_mem = /* a */ 1`:         `set "work_mem"="work_mem = /* a */ 1"`,
		`SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY`:                                   `set "default_transaction_read_only"="default_transaction_read_only = 'on'"`,
		`set session characteristics as transaction isolation level repeatable read, read write`: `set "default_transaction_isolation"="default_transaction_isolation = 'repeatable read'" "default_transaction_read_only"="default_transaction_read_only = 'off'"`,
		`SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`:                                           `none`,
		`SET CONSTRAINTS ALL DEFERRED`:                                                           `none`,
		`BEGIN; SET x = 1; COMMIT`:                                                               `begin; set "x"="x = 1"; commit`,
		`START TRANSACTION READ ONLY`:                                                            `begin`,
		`END TRANSACTION`:                                                                        `commit`,
		`PREPARE TRANSACTION 'x'`:                                                                `prepare`,
		`SET transaction_read_only = 0`:                                                          `none`,
		`SET LOCAL transaction_isolation TO 'serializable'`:                                      `none`,
		`COMMIT PREPARED 'x'`:                                                                    `none`,
		`ROLLBACK AND CHAIN`:                                                                     `rollback`,
		`ABORT WORK`:                                                                             `rollback`,
		`ROLLBACK PREPARED 'x'`:                                                                  `none`,
		`SAVEPOINT "A b"`:                                                                        `savepoint A b`,
		`RELEASE SAVEPOINT Ab`:                                                                   `release ab`,
		`RELEASE savepoint`:                                                                      `release savepoint`,
		`ROLLBACK TRANSACTION TO SAVEPOINT a`:                                                    `rollback to a`,
		`ROLLBACK TO a`:                                                                          `rollback to a`,
		`LISTEN Jobs`:                                                                            `listen jobs`,
		`listen "Jobs"`:                                                                          `listen Jobs`,
		`UNLISTEN "Jobs"`:                                                                        `unlisten Jobs`,
		`UNLISTEN *`:                                                                             `unlisten`,
	} {
		cs, ok := Parse([]byte(text))
		if got := show(cs); got != want || !ok {
			t.Errorf("%s: %s (%v), want %s", text, got, ok, want)
		}
	}
}

// TestNotParsed has what is left to the connection that it ran on.
func TestNotParsed(t *testing.T) {
	long := strings.Repeat("x", maxName+1) // servers cut it
	for _, text := range []string{
		`SET client_encoding = 'LATIN1'`, `SET NAMES 'LATIN1'`, `SET standard_conforming_strings = off`, `SET backslash_quote = on`,
		`SET SESSION AUTHORIZATION app`, `SET LOCAL SESSION AUTHORIZATION app`, `SET session_authorization = app`, `RESET SESSION AUTHORIZATION`,
		`SET seed = 0.5`, `SET temp_buffers = 100`, `SET a.` + strings.Repeat("x", 64) + ` = 1`, `SET search_path = pg_temp, public`, `SET search_path = "PG_TEMP"`, `SET search_path = E'pg\x5ftemp'`,
		`SET search_path = U&'pg\005ftemp'`, `SET SCHEMA 'pg_temp'`, "SET search_path = 'pg_'\n'temp'",
		`SET pgpilot.route = 'primary'`, `SET work_mem FROM CURRENT`, `SET work_mem = 1; SELECT 1`, `SELECT 1`, `SET`, `SET x`, `SET x =`,
		`SET ROLE`, `SET TIME ZONE`, `RESET`, `RESET a b`, ``, `;`, `SAVEPOINT`, `SET x = 'open`,
		`SET x = 1 /*`, `SET ` + strings.Repeat("x", MaxText) + ` = 1`, `LISTEN`, `LISTEN a b`, `UNLISTEN`, `UNLISTEN a, b`, `DISCARD ALL`, `COMMENT ON TABLE t IS 'x'`, `PREPARE x AS SELECT 1`,
		`SAVEPOINT ` + long, `ROLLBACK TO ` + long, `RELEASE "` + long + `"`, `LISTEN ` + long, `UNLISTEN ` + long, `SAVEPOINT ` + strings.Repeat("é", 32),
	} {
		if cs, ok := Parse([]byte(text)); ok {
			t.Errorf("%s is read as %s", text, show(cs))
		}
	}
}

// TestTracker follows settings through transactions; "!" is an error, "." a
// ReadyForQuery outside of a transaction, "t" one inside.
func TestTracker(t *testing.T) {
	for script, want := range map[string]string{
		`SET a=1|.`:                                                `a=1`,
		`SET a=1`:                                                  ``,
		`SET a=1|!|.`:                                              ``,
		`SET a=1|.|SET a=2|!|.|SET b=3|.`:                          `a=1,b=3`,
		`SET LOCAL a=1|.`:                                          ``,
		`BEGIN|t|SET a=1|t|COMMIT|.`:                               `a=1`,
		`BEGIN|t|SET a=1|t|ROLLBACK|.`:                             ``,
		`BEGIN|t|SET a=1|t|!|t|COMMIT=ROLLBACK|.`:                  ``,
		`BEGIN|t|SET a=1|t|SET LOCAL a=2|t|COMMIT|.`:               `a=1`,
		`BEGIN|t|SET LOCAL a=2|t|SET a=1|t|COMMIT|.`:               `a=1`,
		`SET a=1|COMMIT|SET b=2|!|.`:                               `a=1`,
		`BEGIN|SET a=1|ROLLBACK|SET b=2|.`:                         `b=2`,
		`BEGIN|SET a=1|COMMIT|!|.`:                                 `a=1`,
		`SET a=1|.|RESET a|.`:                                      ``,
		`SET a=1|.|SET b=2|.|RESET ALL|.`:                          ``,
		`SET a=1|.|BEGIN|t|RESET ALL|t|ROLLBACK|.`:                 `a=1`,
		`SET ROLE r|.|SET a=1|.|RESET ALL|.`:                       `ROLE r`,
		`SET a=1|.|SET b=2|.|SET a=3|.`:                            `b=2,a=3`,
		`SET a=1|.|SET A=2|.`:                                      `A=2`,
		`BEGIN|t|SAVEPOINT s|t|SET a=1|t|ROLLBACK TO s|t|COMMIT|.`: ``,
		`BEGIN|t|SET a=1|t|SAVEPOINT s|t|SET a=2|t|!|t|ROLLBACK TO s|t|SET b=2|t|COMMIT|.`:                 `a=1,b=2`,
		`BEGIN|t|SAVEPOINT s|t|SET a=1|t|RELEASE s|t|COMMIT|.`:                                             `a=1`,
		`BEGIN|t|SAVEPOINT s|t|SET a=1|t|SAVEPOINT s|t|SET b=1|t|ROLLBACK TO s|t|COMMIT|.`:                 `a=1`,
		`BEGIN|t|SAVEPOINT s|t|SET a=1|t|SAVEPOINT u|t|SET b=1|t|ROLLBACK TO s|t|COMMIT|.`:                 ``,
		`BEGIN|t|SAVEPOINT s|t|SAVEPOINT u|t|SET b=1|t|RELEASE s|t|COMMIT|.`:                               `b=1`,
		`BEGIN|t|SAVEPOINT s|t|SAVEPOINT u|t|SET b=1|t|RELEASE s|t|ROLLBACK|.`:                             ``,
		`BEGIN|t|SET a=1|t|COMMIT AND CHAIN|t|SET b=1|t|ROLLBACK|.`:                                        `a=1`,
		`BEGIN|t|SET a=1|t|PREPARE TRANSACTION 'x'|.`:                                                      `a=1`,
		`BEGIN|t|SAVEPOINT s|t|SET a=1|t|ROLLBACK|.|BEGIN|t|SET b=1|t|RELEASE s|t|COMMIT|.`:                `b=1`,
		`SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY|.|SET default_transaction_read_only = off|.`: `default_transaction_read_only = off`,
		`SET ROLE r|.|SET a=1|.|RESET ROLE|.`:                                                              `a=1 lost`,
		`BEGIN|t|SET a=1|t|ROLLBACK TO unseen|t|COMMIT|.`:                                                  ` lost`,
		`SET a=1|.|SET ROLE r|.|SET ROLE q|.`:                                                              `a=1,ROLE q`,
		`SET ROLE r|.|SET a=1|.|RESET a|.|RESET ROLE|.`:                                                    ``,
		`SET DateStyle='SQL'|.|SET DateStyle='DMY'|.`:                                                      `DateStyle='SQL',DateStyle='DMY'`,
		`SET DateStyle='SQL'|.|SET DateStyle='DMY'|.|SET DateStyle='SQL'|.`:                                `DateStyle='DMY',DateStyle='SQL'`,
		`SET DateStyle='SQL'|.|SET DateStyle='DMY'|.|RESET DateStyle|.`:                                    ``,
		`SET a=1|PREPARE TRANSACTION 'x'=ROLLBACK|.`:                                                       ` lost`,
		`BEGIN|t|SET LOCAL a TO DEFAULT|t|RESET ALL|t|COMMIT|.`:                                            ` lost`,
		`BEGIN|t|SET LOCAL ROLE r|t|SET a=1|t|COMMIT|.`:                                                    `a=1 lost`,
		`BEGIN|t|SET LOCAL ROLE r|t|SET a=1|t|ROLLBACK|.`:                                                  ``,
		`BEGIN|t|SET a=1|t|SET LOCAL ROLE r|t|RESET b|t|COMMIT|.`:                                          `a=1`,
		`BEGIN|t|SET LOCAL ROLE r|t|SET ROLE q|t|SET a=1|t|COMMIT|.`:                                       `ROLE q,a=1`,
		`BEGIN|t|SAVEPOINT s|t|SET LOCAL ROLE r|t|ROLLBACK TO s|t|SET a=1|t|COMMIT|.`:                      `a=1`,
		`BEGIN|t|SAVEPOINT s|t|SET LOCAL ROLE r|t|RELEASE s|t|SET a=1|t|COMMIT|.`:                          `a=1 lost`,
		`BEGIN|t|SET transaction_read_only = on|t|COMMIT|.`:                                                ``,
	} {
		var tr Tracker
		for step := range strings.SplitSeq(script, "|") {
			switch step {
			case ".", "t":
				tr.Ready(step == ".")
			case "!":
				tr.Failed()
			default:
				text, tag, _ := strings.Cut(step, "=ROLLBACK")
				if text != step {
					tag = rolledBack
				}
				cs, ok := Parse([]byte(text))
				if !ok {
					t.Fatalf("%s is not read", text)
				}
				for i := range cs {
					tr.Ran(&cs[i], []byte(tag))
				}
			}
		}
		var got []string
		for _, s := range tr.List().Settings() {
			got = append(got, s.SQL)
		}
		s := strings.Join(got, ",")
		if tr.Lost() {
			s += " lost"
		}
		if s != want {
			t.Errorf("%s: %s, want %s", script, s, want)
		}
	}
}

// TestNow gives what is set inside a transaction.
func TestNow(t *testing.T) {
	tr := Arrive(Baggage{Settings: []Change{{"a", "a = 1"}}})
	for _, text := range []string{"SET LOCAL b = 2", "SAVEPOINT s", "SET a = 3"} {
		cs, _ := Parse([]byte(text))
		tr.Ran(&cs[0], nil)
	}
	now := tr.Now()
	if got := string(now.AppendSQL(nil)); got != "RESET ROLE;RESET ALL\n;SET b = 2\n;SET a = 3" {
		t.Errorf("%q", got)
	}
	if got := string(tr.List().AppendSQL(nil)); got != "RESET ROLE;RESET ALL\n;SET a = 1" {
		t.Errorf("%q", got)
	}
	limited := Of([]Change{{"statement_timeout", "statement_timeout = 1"}, {"a", "a = 1"}})
	if got := string(limited.AppendSQL(nil)); got != "RESET ROLE;RESET ALL\n;SET a = 1\n;SET statement_timeout = 1" {
		t.Errorf("the time limit is not the last: %q", got)
	}
	if !tr.Open() {
		t.Error("the transaction has set nothing")
	}
}

// TestHash identifies lists by what they hold, and the empty one by nothing.
func TestHash(t *testing.T) {
	a, b := Of([]Change{{"a", "a = 1"}, {"b", "b = 2"}}), Of([]Change{{"b", "b = 2"}, {"a", "a = 1"}})
	if f, g := Of([]Change{{"datestyle", "x"}, {"datestyle", "y"}}), Of([]Change{{"datestyle", "y"}, {"datestyle", "x"}}); f.Hash() == g.Hash() {
		t.Error("parts of one parameter are not told apart by their order")
	}
	c, none := Of([]Change{{"a", "a = 1b = 2"}, {"b", ""}}), Of(nil)
	if a.Hash() != b.Hash() || a.Hash() == c.Hash() || none.Hash() != (Hash{}) || a.Hash() == (Hash{}) {
		t.Errorf("%x %x %x %x", a.Hash(), b.Hash(), c.Hash(), none.Hash())
	}
	d, e := Of([]Change{{"timezone", "timezone = 'UTC'"}, {"app.user", "app.user = '1'"}, {"statement_timeout", "statement_timeout = 1"}}), Of([]Change{{"timezone", "timezone = 'UTC'"}})
	if d.AtParse() != e.Hash() || e.AtParse() == a.AtParse() {
		t.Error("what matters when a statement is parsed is not told apart")
	}
	if f := Of([]Change{{"app.user", "app.user = '1'"}}); f.AtParse() != (Hash{}) {
		t.Error("an application's own parameter matters when a statement is parsed")
	}
}

// TestBounds loses what is too much instead of growing.
func TestBounds(t *testing.T) {
	for name, step := range map[string]func(i int) string{
		"settings":   func(i int) string { return fmt.Sprintf("SET a.x%d = 1", i) },
		"bytes":      func(i int) string { return fmt.Sprintf("SET a.x%d = '%s'", i%8, strings.Repeat("x", 2000)) },
		"changes":    func(int) string { return "SET LOCAL a = 1" },
		"savepoints": func(int) string { return "SAVEPOINT a" },
	} {
		var tr Tracker
		for i := range 1000 {
			cs, ok := Parse([]byte(step(i)))
			if !ok {
				t.Fatal(step(i))
			}
			tr.Ran(&cs[0], nil)
			if name == "settings" || name == "bytes" {
				tr.Ready(true)
			}
			if tr.Lost() {
				break
			}
		}
		if !tr.Lost() {
			t.Errorf("%s: nothing is too much", name)
		}
	}
}

// FuzzParse: nothing that is read may turn into something else when it is set again
// behind other settings.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"SET a = 1", "SET TIME ZONE 'x' -- y", "SET a TO b, 'c'; RESET ALL", "SET a = $$;$$"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cs, ok := Parse(text)
		if !ok {
			return
		}
		var changes []Change
		for _, c := range cs {
			for _, ch := range c.Changes {
				if ch.SQL != "" && c.Kind == Set && ch.Name != statementTimeout { // which changes places
					changes = append(changes, ch)
				}
			}
		}
		if len(changes) == 0 {
			return
		}
		l := Of(changes)
		again, ok := Parse(l.AppendSQL(nil))
		if len(l.AppendSQL(nil)) > MaxText {
			return
		}
		if !ok || len(again) != len(changes)+2 {
			t.Fatalf("%q is read as %s and again as %s", text, show(cs), show(again))
		}
		for i, ch := range changes {
			if got := again[i+2].Changes; len(got) != 1 || got[0] != ch {
				t.Fatalf("%q becomes %v instead of %v", text, got, ch)
			}
		}
	})
}

// TestListens follows channels through transactions.
func TestListens(t *testing.T) {
	for script, want := range map[string]bool{
		`LISTEN a|.`:                                        true,
		`LISTEN a`:                                          false,
		`LISTEN a|!|.`:                                      false,
		`LISTEN a|.|UNLISTEN b|.`:                           true,
		`LISTEN a|.|LISTEN b|.|UNLISTEN a|.`:                true,
		`LISTEN a|.|LISTEN b|.|UNLISTEN *|.`:                false,
		`LISTEN a|.|BEGIN|t|UNLISTEN a|t|ROLLBACK|.`:        true,
		`BEGIN|t|LISTEN a|t|ROLLBACK|.`:                     false,
		`BEGIN|t|LISTEN a|t|COMMIT|.`:                       true,
		`BEGIN|SAVEPOINT s|LISTEN a|ROLLBACK TO s|COMMIT|.`: false,
		`LISTEN a|.|RESET ALL|.`:                            true,
	} {
		var tr Tracker
		for step := range strings.SplitSeq(script, "|") {
			switch step {
			case ".", "t":
				tr.Ready(step == ".")
			case "!":
				tr.Failed()
			default:
				cs, ok := Parse([]byte(step))
				if !ok {
					t.Fatalf("%s is not read", step)
				}
				tr.Ran(&cs[0], nil)
			}
		}
		if tr.Listens() != want || tr.List().Hash() != (Hash{}) {
			t.Errorf("%s: %v, want %v", script, tr.Listens(), want)
		}
	}
}
