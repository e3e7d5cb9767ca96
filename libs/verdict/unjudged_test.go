package verdict

import (
	"testing"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

func TestUnjudgedTextsThatMayLeaveSomething(t *testing.T) {
	for text, leaves := range map[string]any{
		"SELECT count(*) FROM t WHERE a = 'set_config'":                            false,
		"SELECT 1 -- set_config":                                                   false,
		"INSERT INTO t (a) VALUES (1) RETURNING a":                                 false,
		"WITH x AS (SELECT 1) UPDATE t SET a = 2":                                  false,
		"SELECT temperature FROM weather":                                          false,
		"SELECT pg_advisory_xact_lock(1)":                                          false,
		"SELECT pg_advisory_lock(1)":                                               true,
		"select a, PG_TRY_ADVISORY_LOCK(1) from t":                                 true,
		`SELECT pg_catalog."set_config"('a.b', 'c', false)`:                        true,
		`SELECT U&"set\005fconfig"('a.b', 'c', false)`:                             true,
		"UPDATE t SET a = 1 RETURNING setval('s', 1)":                              true,
		"SELECT nextval('s')":                                                      "sequences",
		"SELECT 1 AS a INTO TEMP t":                                                true,
		"WITH x AS (SELECT 1) SELECT * INTO TEMPORARY t FROM x":                    true,
		"INSERT INTO pg_temp.t VALUES (1)":                                         true,
		"EXPLAIN ANALYZE SELECT setseed(0.5)":                                      "indelible",
		"SELECT dblink_connect('c', '')":                                           "indelible",
		"DO $$ BEGIN PERFORM 1; END $$; LOAD 'x'":                                  "indelible",
		"DO $$ BEGIN END $$":                                                       true,
		"CREATE TABLE t (a int)":                                                   true,
		"SELECT 1; SELECT 2":                                                       true,
		"PREPARE p AS SELECT 1":                                                    true,
		"SELECT 'never closed":                                                     true,
		"SELECT averyveryveryveryveryveryveryveryveryveryverylongname0123456789()": false,
	} {
		r, err := sqltoken.NewScanner(sqltoken.Secret{}).Scan([]byte(text), &sqltoken.Options{ServerMajor: 17})
		if err != nil {
			r = sqltoken.Result{}
		}
		v := Unjudged([]byte(text), r, 17)
		want := map[any]Effect{false: Unproven, true: Unproven | Session, "sequences": Unproven | Sequences, "indelible": Unproven | Session | Indelible}[leaves]
		if v.Kind != Write || v.Effects != want {
			t.Errorf("%s: %v, %v; want a write, %v", text, v.Kind, v.Effects, want)
		}
	}
}
