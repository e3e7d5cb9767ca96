package catalog

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// What is added to a table after its first verdict must end that verdict.
func TestWhatAWriteRunsIsNoticed(t *testing.T) {
	c := labtest.Start(t, 0)
	conn := connect(t, c.Primary().DSN())
	exec(t, conn, `CREATE FUNCTION nasty() RETURNS int LANGUAGE plpgsql AS $$BEGIN EXECUTE ''; RETURN 1; END$$;
		CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;
		CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE nasty_default (id int DEFAULT nasty(), v int);
		CREATE TABLE b (id int REFERENCES a DEFERRABLE, v int); CREATE TABLE c (id int, v int); CREATE TABLE d (id int, v int)`)
	d := open(t, c, nil)
	d.eventually(t, "SELECT 1", verdict.Read)
	d.wantChange(t, lab.Database)
	for _, step := range []struct {
		sql, text string
		want      verdict.Effect
	}{
		{"CREATE TRIGGER x BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION fires()", "INSERT INTO a VALUES (1)", 0},
		{"CREATE OR REPLACE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN LISTEN x; RETURN NEW; END$$", "INSERT INTO a VALUES (1)", verdict.Session},
		{"DROP TRIGGER x ON a", "INSERT INTO a VALUES (1)", 0},
		{"ALTER TABLE a ALTER v SET DEFAULT nasty()", "INSERT INTO a VALUES (1)", verdict.Unproven},
		{"ALTER TABLE a ALTER v DROP DEFAULT", "INSERT INTO a VALUES (1)", 0},
		{"ALTER TABLE a ALTER v SET NOT NULL; ALTER TABLE a ALTER v ADD GENERATED ALWAYS AS IDENTITY", "INSERT INTO a VALUES (1)", verdict.Sequences},
		{"ALTER TABLE b ALTER v SET DEFAULT nasty()", "DELETE FROM a", verdict.Sequences},
		{"ALTER TABLE b ADD FOREIGN KEY (id) REFERENCES a ON DELETE SET DEFAULT", "DELETE FROM a", verdict.Sequences | verdict.Unproven},
		{"CREATE RULE x AS ON INSERT TO c DO ALSO INSERT INTO nasty_default (v) VALUES (1)", "INSERT INTO c VALUES (1)", verdict.Unproven},
		{"CREATE POLICY x ON d FOR INSERT WITH CHECK (nasty() > 0)", "INSERT INTO d VALUES (1)", 0},
		{"ALTER TABLE d ENABLE ROW LEVEL SECURITY", "INSERT INTO d VALUES (1)", verdict.Unproven},
	} {
		for len(d.changed) > 0 {
			<-d.changed
		}
		before := d.judge(step.text)
		exec(t, conn, step.sql)
		d.Look(lab.Database)
		if before.Effects != step.want {
			d.wantChange(t, lab.Database)
		}
		for deadline := time.Now().Add(patience); ; {
			at := d.Of(lab.Database)
			o := judge.Judge(step.text, at)
			if o.Kind == verdict.Write && o.Effects == step.want && !o.Unknown {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %s: %s: %v %v, want %v", step.sql, step.text, o.Effects, o.Reason, step.want)
			}
			d.Again(lab.Database, at, true)
		}
	}
}

func TestEventTriggersRunWithDefinitions(t *testing.T) {
	c := labtest.Start(t, 0)
	super := superuser(t, c.Primary())
	d := open(t, c, nil)
	if o := d.judge("CREATE TABLE x (a int)"); o.Effects != 0 {
		t.Fatalf("%v without an event trigger", o.Effects)
	}
	d.wantChange(t, lab.Database)
	exec(t, super, `CREATE FUNCTION hears() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN SET work_mem = '5MB'; END$$;
		CREATE EVENT TRIGGER x ON ddl_command_end EXECUTE FUNCTION hears();
		CREATE FUNCTION defines() RETURNS int LANGUAGE sql AS 'DROP TABLE IF EXISTS z; SELECT 1';
		CREATE TABLE y (a int)`)
	d.Look(lab.Database)
	d.wantChange(t, lab.Database)
	for _, text := range []string{"CREATE TABLE x (a int)", "DROP TABLE y", "GRANT SELECT ON y TO PUBLIC", "COMMENT ON TABLE y IS 'x'",
		"SELECT 1 INTO x", "CREATE TABLE x AS SELECT 1", "ALTER TABLE y ADD b int", "SELECT defines()"} {
		if o := d.judge(text); o.Effects != verdict.Session {
			t.Errorf("%s: %v, want %v", text, o.Effects, verdict.Session)
		}
	}
	if o := d.judge("INSERT INTO y VALUES (1)"); o.Effects != 0 {
		t.Errorf("an INSERT defines nothing: %v", o.Effects)
	}
}

func TestVolatilePLpgSQLIsReadCommandByCommand(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		refused bool
		effects verdict.Effect
		writes  bool
	}{
		"nothing":                     {text: "BEGIN END"},
		"assignments":                 {text: "DECLARE a int := 1; show int; b.c%TYPE; BEGIN a := 2; a = 3; n.a := 4; n[1] := 5; END", refused: true},
		"declarations":                {text: "DECLARE a int := 1; shown int; b c.d%TYPE; BEGIN a := 2; a = 3; n.a := 4; n[1] := 5; END"},
		"declared twice":              {text: "DECLARE a int; b int; BEGIN DECLARE c int; d int; BEGIN NULL; END; SET ROLE x; END", effects: verdict.Session},
		"set behind declarations":     {text: "DECLARE a int; BEGIN SET ROLE x; END", effects: verdict.Session},
		"set among declarations":      {text: "DECLARE a int; SET work_mem = 1; BEGIN NULL; END", refused: true},
		"set after THEN":              {text: "BEGIN IF a THEN SET ROLE x; END IF; END", effects: verdict.Session},
		"set after ELSE":              {text: "BEGIN IF a THEN NULL; ELSE SET ROLE x; END IF; END", effects: verdict.Session},
		"set after LOOP":              {text: "BEGIN LOOP SET ROLE x; END LOOP; END", effects: verdict.Session},
		"set after an empty DECLARE":  {text: "DECLARE BEGIN SET ROLE x; END", effects: verdict.Session},
		"listen after an empty one":   {text: "BEGIN DECLARE BEGIN LISTEN x; END; END", effects: verdict.Session},
		"set after a label":           {text: "BEGIN <<a>>SET ROLE x; END", effects: verdict.Session},
		"set behind a comment":        {text: "BEGIN /* x */ SET -- y\n ROLE x; END", effects: verdict.Session},
		"set local":                   {text: "BEGIN SET LOCAL app.x = 'y'; SET LOCAL work_mem = 1; SET LOCAL \"b\".c TO d; SET CONSTRAINTS ALL DEFERRED; END"},
		"set local role":              {text: "BEGIN SET LOCAL ROLE x; END", effects: judge.Local},
		"set local path":              {text: "BEGIN SET LOCAL search_path = x; END", effects: judge.Local},
		"set local seed":              {text: "BEGIN SET LOCAL seed = 0.5; END", effects: verdict.Session | verdict.Indelible},
		"reset":                       {text: "BEGIN RESET ALL; END", effects: verdict.Session},
		"update":                      {text: "BEGIN UPDATE t SET a = 1; INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2; END", writes: true},
		"merge":                       {text: "BEGIN MERGE INTO t USING u ON true WHEN MATCHED THEN UPDATE SET a = 1 WHEN NOT MATCHED THEN DO NOTHING; END", writes: true},
		"read":                        {text: "BEGIN SELECT a INTO b FROM t; PERFORM 1; RETURN QUERY SELECT 1; END"},
		"case":                        {text: "BEGIN a := CASE WHEN b THEN c ELSE d END; CASE a WHEN 1 THEN b := 2; ELSE NULL; END CASE; END"},
		"execute in a loop":           {text: "BEGIN FOR r IN EXECUTE 'x' LOOP NULL; END LOOP; END", refused: true},
		"temporary table":             {text: "BEGIN CREATE TEMP TABLE x (a int); END", refused: true, effects: verdict.Session},
		"a column of that name":       {text: "BEGIN x := CASE WHEN a THEN load ELSE 0 END; END", refused: true},
		"load":                        {text: "BEGIN LOAD 'x'; END", refused: true, effects: verdict.Indelible},
		"temporary schema":            {text: "BEGIN INSERT INTO pg_temp.x VALUES (1); END", refused: true, effects: verdict.Session, writes: true},
		"a column named temp":         {text: "BEGIN NEW.temp := 1; RETURN NEW; END"},
		"definition":                  {text: "BEGIN DROP TABLE x; END", refused: true},
		"prepare":                     {text: "BEGIN PREPARE x AS SELECT 1; END", refused: true},
		"do":                          {text: "BEGIN DO 'BEGIN END'; END", refused: true},
		"truncate":                    {text: "BEGIN TRUNCATE a, b; END", writes: true},
		"truncate cascade":            {text: "BEGIN TRUNCATE a CASCADE; END", refused: true, writes: true},
		"local setting":               {text: "BEGIN PERFORM set_config('a.b', f(x, y), true); PERFORM pg_catalog.set_config('a.b', 'x', TRUE); END"},
		"local path":                  {text: "BEGIN PERFORM set_config('a.b', 'x', true); PERFORM set_config('Search_Path', 'x', true); END", effects: judge.Local},
		"local, of any name":          {text: "BEGIN PERFORM set_config('a.' || b, 'x', true); END", effects: judge.Local},
		"local, of a string's like":   {text: "BEGIN PERFORM set_config(('a.b'), 'x', true); END", effects: judge.Local},
		"a block in THEN":             {text: "BEGIN IF a THEN DECLARE b int; BEGIN NULL; END; END IF; END", refused: true},
		"a block in a handler":        {text: "BEGIN NULL; EXCEPTION WHEN OTHERS THEN BEGIN RESET ROLE; END; END", effects: verdict.Session},
		"procedure with transactions": {text: "BEGIN COMMIT; CALL p(1); ROLLBACK; END"},
		"command of a later release":  {text: "BEGIN FROBNICATE x; END", refused: true},
	} {
		b := plpgsql(c.text, true)
		if (b.reason != "") != c.refused || b.effects != c.effects || b.writes != c.writes {
			t.Errorf("%s: reason %q, effects %v, writes %v", name, b.reason, b.effects, b.writes)
		}
	}
	for _, text := range []string{"BEGIN PERFORM set_config('a.b', 'true', false); END", "BEGIN PERFORM set_config('a.b', 'x', v); END",
		"BEGIN PERFORM set_config('a.b', 'x', true AND false); END", "BEGIN PERFORM set_config('a.b', 'x', false OR true); END",
		"BEGIN PERFORM f(set_config, 1, true); END", "BEGIN PERFORM s.set_config('a', 'b', true); END"} {
		names := false
		for _, u := range plpgsql(text, true).uses {
			names = names || u.kind == useWord && u.name == "set_config"
		}
		if !names {
			t.Errorf("%s: set_config is overlooked", text)
		}
	}
}

// A view of PostgreSQL's own has rules, too: an UPDATE of pg_settings runs set_config.
func TestAnUpdateOfPgSettingsSets(t *testing.T) {
	c := labtest.Start(t, 0)
	conn := connect(t, c.Primary().DSN())
	exec(t, conn, `CREATE FUNCTION sets() RETURNS void LANGUAGE sql AS $$UPDATE pg_settings SET setting = '1MB' WHERE name = 'work_mem'$$;
		CREATE FUNCTION sets_too() RETURNS int LANGUAGE plpgsql AS $$BEGIN UPDATE pg_catalog.pg_settings SET setting = '1MB'; RETURN 1; END$$`)
	d := open(t, c, nil)
	d.eventually(t, "SELECT 1", verdict.Read)
	for _, text := range []string{
		"UPDATE pg_settings SET setting = '1MB' WHERE name = 'work_mem'", "UPDATE pg_catalog.pg_settings AS s SET setting = '1MB'",
		"WITH u AS (UPDATE pg_settings SET setting = '1MB' RETURNING 1) SELECT 1", "SELECT sets()", "SELECT sets_too()", "DO 'BEGIN UPDATE pg_settings SET setting = 1; END'",
	} {
		if o := d.judge(text); !o.Effects.Has(verdict.Session) {
			t.Errorf("%s: %v", text, o.Effects)
		}
		if o := judge.Judge(text, judge.Static{}); o.Effects&(verdict.Session|verdict.Unproven) == 0 {
			t.Errorf("%s, of a database that is not known: %v", text, o.Effects)
		}
	}
}

// Any client may send such a block. If each call had the rest of the text looked at, the
// price of 64 times the text would be some thousands of times as high. It is measured in time of
// the processor, on which other work has less influence; one of five below a thousand tells.
func TestThePriceOfABodyGrowsWithItsLength(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const least, times, limit = 500, 64, 1000
	for _, piece := range []string{"set_config(", "set_config(a, b, ", "EXECUTE (", "EXECUTE format((", "[set_config(", "EXECUTE 'SET a' ||"} {
		price := func(n int) time.Duration {
			text := "BEGIN PERFORM " + strings.Repeat(piece, n)
			begun := processorTime(t)
			plpgsql(text, true)
			return processorTime(t) - begun
		}
		var tries []time.Duration
		short := min(price(least), price(least), price(least))
		for len(tries) == 0 || len(tries) < 5 && slices.Min(tries) > short*limit {
			tries = append(tries, price(least*times))
		}
		if slices.Min(tries) > short*limit {
			t.Errorf("%q: %v, and %v for %d times the text", piece, short, tries, times)
		}
	}
}

// processorTime gives what the thread at hand has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// What is undone with the transaction keeps a query from the replicas, on which it may
// have other parts, but is nothing to the session.
func TestWhatOnlyATransactionKeepsIsNothingToTheSession(t *testing.T) {
	for _, text := range []string{
		"BEGIN PERFORM set_config('a.b', y, true); END",
		"BEGIN RETURN pg_catalog.set_config('a.b', f(x), TRUE); END",
		"BEGIN OPEN c FOR SELECT 1; END",
		"BEGIN RETURN (SELECT cmin FROM t LIMIT 1); END",
	} {
		b := plpgsql(text, false)
		if b.reason != "" || b.primary == "" || b.effects != 0 || slices.Contains(b.uses, use{kind: useWord, name: "set_config"}) {
			t.Errorf("%s: %+v", text, b)
		}
		if b := plpgsql(text, true); b.reason != "" || b.primary != "" || b.effects != 0 {
			t.Errorf("%s in a volatile function: %+v", text, b)
		}
	}
	if b := plpgsql("BEGIN OPEN c FOR EXECUTE q; END", false); b.reason == "" {
		t.Error("EXECUTE behind OPEN is overlooked")
	}
	for _, last := range []string{"false", "v", "true AND v"} {
		b := plpgsql("BEGIN PERFORM set_config(x, y, "+last+"); END", false)
		if !slices.Contains(b.uses, use{kind: useWord, name: "set_config"}) {
			t.Errorf("set_config(x, y, %s) is overlooked", last)
		}
	}
}
