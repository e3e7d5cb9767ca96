package catalog

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// What functions and triggers set until the end of the transaction is told where it may matter
// to what is parsed, or made, behind them, and is nothing otherwise.
func TestLocalSettingsOfFunctions(t *testing.T) {
	c := labtest.Start(t, 0)
	exec(t, superuser(t, c.Primary()), `CREATE TABLE noted (id int); CREATE TABLE led (id int);
		CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('app.user', NEW.id::text, true); SET LOCAL work_mem = '5MB'; RETURN NEW; END$$;
		CREATE TRIGGER x BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION notes();
		CREATE FUNCTION leads(path text) RETURNS text LANGUAGE sql AS $$SELECT set_config('search_path', $1, true)$$;
		CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM leads('x'); RETURN NEW; END$$;
		CREATE TRIGGER x BEFORE INSERT ON led FOR EACH ROW EXECUTE FUNCTION fires();
		CREATE FUNCTION names(name text) RETURNS text LANGUAGE sql AS $$SELECT set_config(name, 'x', true)$$;
		CREATE FUNCTION acts() RETURNS void LANGUAGE plpgsql AS $$BEGIN SET LOCAL ROLE pg_monitor; END$$;
		CREATE FUNCTION shuffles() RETURNS void LANGUAGE sql AS $$SET LOCAL seed = 0.5$$;
		CREATE FUNCTION logs_in() RETURNS void LANGUAGE plpgsql AS $$BEGIN SET LOCAL SESSION AUTHORIZATION DEFAULT; END$$;
		CREATE FUNCTION logs_in_by_name() RETURNS void LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('session_authorization', 'pilot', true); END$$;
		CREATE FUNCTION makes() RETURNS void LANGUAGE sql AS $$CREATE TABLE IF NOT EXISTS x (id int)$$;
		CREATE FUNCTION drops() RETURNS void LANGUAGE sql AS $$DROP TABLE IF EXISTS x$$`)
	s := read(t, c)
	for text, want := range map[string]struct {
		effects verdict.Effect
		told    bool
	}{
		"INSERT INTO noted VALUES (1)":            {},
		"INSERT INTO led VALUES (1)":              {verdict.Unproven, true},
		"SELECT leads('x')":                       {verdict.Unproven, true},
		"SELECT names('x')":                       {verdict.Unproven, true},
		"SELECT acts()":                           {verdict.Unproven, true},
		"DO $$BEGIN PERFORM leads('x'); END$$":    {verdict.Unproven, true},
		"DO $$BEGIN SET LOCAL ROLE pilot; END$$":  {verdict.Unproven, true},
		"DO $$BEGIN SET LOCAL app.x = 'y'; END$$": {verdict.Unproven, false},
		"SELECT shuffles()":                       {verdict.Session | verdict.Indelible, false},
		"SELECT logs_in()":                        {verdict.Session, false},
		"SELECT logs_in_by_name()":                {verdict.Session, false},
		"SELECT makes()":                          {verdict.Unproven, false},
		"SELECT drops()":                          {},
		"PREPARE p AS SELECT leads('x')":          {verdict.Session, false},
	} {
		o := judge.Judge(text, s)
		told := o.Detail != nil && len(o.Detail.Parts[0].Locals) > 0
		if o.Kind != verdict.Write || o.Effects != want.effects || told != want.told {
			t.Errorf("%s: %v %v, told %v", text, o.Kind, o.Effects, told)
		}
		if told && (o.Detail.Parts[0].Locals[0] != verdict.Operand{}) {
			t.Errorf("%s: %+v", text, o.Detail.Parts[0])
		}
	}
}
