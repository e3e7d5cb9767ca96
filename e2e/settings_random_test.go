package e2e

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	settingsSeed  = flag.Uint64("settings-seed", 1, "what TestSettingsAtRandom does by chance")
	settingsSteps = flag.Int("settings-steps", 400, "how many steps TestSettingsAtRandom makes")
)

// values are what the random sessions set. Those that are refused, and those that
// build on what was set before, are among them.
var values = map[string][]string{
	"TimeZone":                      {"'Etc/GMT-1'", "'Etc/GMT-2'", "'nowhere'", "DEFAULT"},
	"DateStyle":                     {"'German'", "'SQL'", "'DMY'", "'ISO, YMD'", "'Postgres'", "'wrong'", "DEFAULT", "SQL, MDY"},
	"IntervalStyle":                 {"iso_8601", "'sql_standard'", "nothing"},
	"search_path":                   {"s1", "s2, public", `"$user", s1`, "DEFAULT", "'s1', 's2'"},
	"role":                          {"alice", "'bob'", "none", "nobody", "DEFAULT"},
	"work_mem":                      {"'5MB'", "6000", "'much'", "DEFAULT"},
	"application_name":              {"'one'", "'it''s'", `E'a\'b'`, "DEFAULT"},
	"extra_float_digits":            {"0", "2", "-3", "99"},
	"bytea_output":                  {"escape", "hex"},
	"my.client":                     {"'1'", "'2; RESET ALL'", "'--'"},
	"default_transaction_isolation": {"'repeatable read'", "serializable", "'read committed'", "DEFAULT"},
	"default_transaction_read_only": {"on", "off", "DEFAULT"},
	"transaction_read_only":         {"on", "off"},
	"transaction_isolation":         {"'serializable'", "'read committed'"},
	"statement_timeout":             {"'1h'", "0", "60001"},
	"lc_messages":                   {"'C'", "'xx'"},
	"log_statement":                 {"'all'"}, // only superusers may
	"session_replication_role":      {"replica"},
	"max_connections":               {"5"},
	"no_such_parameter":             {"1"},
}

// ask shows what holds, where names lead and how constants are read.
const ask = `SELECT concat_ws('/', current_setting('TimeZone'), current_setting('DateStyle'), current_setting('IntervalStyle'),
	current_setting('search_path'), current_user, current_setting('role'), current_setting('work_mem'), current_setting('application_name'),
	current_setting('extra_float_digits'), current_setting('bytea_output'), nullif(current_setting('my.client', true), ''),
	current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only'), current_setting('statement_timeout'),
	current_setting('lc_messages'), current_setting('session_replication_role')), '2024-02-01 00:00+00'::timestamptz::text, '01/02/2024'::date - '2000-01-01'::date`

// pair is one session through pgpilot and one on the server itself, to which the same
// is done.
type pair struct {
	*testing.T
	r                 *rand.Rand
	through, straight *wire
	told              [2]map[string]string // the parameters each was told of
	status            byte
	history           []string
}

// send sends messages to both and compares the answers, but for when they are told of
// parameters.
func (p *pair) send(what string, messages []pgproto3.FrontendMessage, ready int) bool {
	p.Helper()
	p.history = append(p.history, strings.ReplaceAll(what, ask, "(ask)"))
	var got [2]string
	for i, w := range []*wire{p.straight, p.through} {
		var kept []string
		for _, m := range w.send(messages, ready) {
			switch m[0] {
			case 'S':
				name, value, _ := strings.Cut(strings.Trim(m[2:], `"`), "|")
				p.told[i][name] = value
			case 'N': // of a setting outside of a transaction, and the like
				if strings.Contains(m, "WARNING") {
					kept = append(kept, m)
				}
			default:
				kept = append(kept, m)
			}
			if m[0] == 'Z' {
				p.status = m[3]
			}
		}
		got[i] = place.ReplaceAllString(strings.Join(kept, "\n"), "")
	}
	if got[0] != got[1] {
		p.Errorf("direct:\n%s\nthrough pgpilot:\n%s\nafter\n%s", got[0], got[1], strings.Join(tail(p.history, 40), "\n"))
		return false
	}
	if !maps.Equal(p.told[0], p.told[1]) {
		p.Errorf("told of %v, direct of %v\nafter\n%s", p.told[1], p.told[0], strings.Join(tail(p.history, 40), "\n"))
		return false
	}
	return true
}

func tail(all []string, n int) []string { return all[max(0, len(all)-n):] }

func (p *pair) query(sql string) bool {
	return p.send(sql, []pgproto3.FrontendMessage{&pgproto3.Query{String: sql}}, 1)
}

// pipeline sends statements with the extended protocol, with a Sync behind some.
func (p *pair) pipeline(statements []string) bool {
	var out []pgproto3.FrontendMessage
	var what []string
	ready := 1
	for i, sql := range statements {
		name := ""
		if p.r.IntN(4) == 0 {
			name = fmt.Sprintf("p%d", p.r.IntN(3))
			out = append(out, &pgproto3.Close{ObjectType: 'S', Name: name})
		}
		portal := ""
		if p.r.IntN(4) == 0 {
			portal = fmt.Sprintf("c%d", i)
		}
		bind := &pgproto3.Bind{DestinationPortal: portal, PreparedStatement: name}
		if p.r.IntN(2) == 0 {
			sql, bind.Parameters = parametrized(sql)
		}
		out = append(out, &pgproto3.Parse{Name: name, Query: sql}, bind)
		if p.r.IntN(2) == 0 {
			out = append(out, &pgproto3.Describe{ObjectType: 'P', Name: portal})
		}
		out = append(out, &pgproto3.Execute{Portal: portal, MaxRows: uint32(p.r.IntN(2))})
		what = append(what, fmt.Sprintf("[%s %s] %s", name, portal, sql))
		if i < len(statements)-1 && p.r.IntN(3) == 0 {
			out = append(out, &pgproto3.Sync{})
			what = append(what, "Sync")
			ready++
		}
	}
	return p.send(strings.Join(what, " | "), append(out, &pgproto3.Sync{}), ready)
}

// statement is a statement of chance.
func (p *pair) statement() string {
	names := slices.Sorted(maps.Keys(values))
	name := names[p.r.IntN(len(names))]
	value := values[name][p.r.IntN(len(values[name]))]
	switch n := p.r.IntN(60); {
	case n >= 48:
		return sqlPrepared[p.r.IntN(len(sqlPrepared))]
	case n >= 40:
		return p.call(name, value)
	case n < 14:
		return fmt.Sprintf("SET %s = %s", name, value)
	case n < 16:
		return fmt.Sprintf("SET SESSION %s TO %s", name, value)
	case n < 19:
		return fmt.Sprintf("SET LOCAL %s TO %s", name, value)
	case n < 21:
		return "RESET " + name
	case n < 22:
		return "RESET ALL"
	case n < 23:
		return "SET ROLE " + []string{"alice", "bob", "NONE", "nobody"}[p.r.IntN(4)]
	case n < 24:
		return []string{"SET TIME ZONE 'Etc/GMT-3'", "SET TIME ZONE LOCAL", "SET TIME ZONE -4", "SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "SET SCHEMA 's2'", "SET XML OPTION DOCUMENT",
			"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL REPEATABLE READ", "SET TRANSACTION READ ONLY", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"}[p.r.IntN(9)]
	case n < 26:
		return []string{"BEGIN", "START TRANSACTION READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ"}[p.r.IntN(3)]
	case n < 29:
		return []string{"COMMIT", "COMMIT AND CHAIN", "END", "PREPARE TRANSACTION 'x'"}[p.r.IntN(4)]
	case n < 31:
		return []string{"ROLLBACK", "ROLLBACK", "ROLLBACK AND CHAIN", "ABORT"}[p.r.IntN(4)]
	case n < 33:
		return "SAVEPOINT " + []string{"a", "b", `"A"`, "A"}[p.r.IntN(4)]
	case n < 34:
		return "RELEASE " + []string{"a", "SAVEPOINT b", `"A"`}[p.r.IntN(3)]
	case n < 36:
		return "ROLLBACK TO " + []string{"a", "b", `SAVEPOINT "A"`}[p.r.IntN(3)]
	case n < 37:
		return "SELECT 1/0"
	case n < 38:
		return "INSERT INTO v VALUES (1)"
	case n < 39:
		return "SELECT count(*) > 0 FROM v"
	}
	return "SHOW " + name
}

// sqlPrepared are statements about what is prepared with SQL, and with Parse (p0). What
// some mean depends on what is set.
var sqlPrepared = []string{
	"PREPARE q0 AS SELECT count(*) > 0 FROM v", "PREPARE q0 AS SELECT count(*) FROM v WHERE n = $1 AND false", "PREPARE q0 (int) AS SELECT $1 + 1",
	"PREPARE q1 AS SELECT '01/02/2024'::date - '2000-01-01'::date", "PREPARE q1 AS INSERT INTO v VALUES (1)", "PREPARE q1 AS SELECT * FROM nowhere",
	"PREPARE p0 AS SELECT 1", "EXECUTE q0", "EXECUTE q0", "EXECUTE q0 (1)", "EXECUTE q0 ('x')", "EXECUTE q1", "EXECUTE q1", "EXECUTE p0",
	"EXECUTE p1", "DEALLOCATE q0", "DEALLOCATE q1", "DEALLOCATE p0", "DEALLOCATE ALL",
}

// call writes a SELECT of set_config, of two parameters sometimes.
func (p *pair) call(name, value string) string {
	one := func(name, value string) string {
		switch {
		case value == "DEFAULT":
			value = "NULL"
		case strings.Contains(value, "', '") || value[0] != '\'' && value[0] != 'E':
			value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
		}
		return fmt.Sprintf("set_config('%s', %s, %s)", name, value, []string{"true", "false", "'off'", "'t'"}[p.r.IntN(4)])
	}
	sql := "SELECT " + one(name, value)
	if p.r.IntN(3) == 0 {
		sql += ", " + one("my.client", "'3'")
	}
	return sql
}

// constant is one without escapes in it.
var constant = regexp.MustCompile(`'([^'\\]*)'`)

// parametrized makes parameters of the constants of a SELECT of set_config.
func parametrized(sql string) (string, [][]byte) {
	var values [][]byte
	if !strings.HasPrefix(sql, "SELECT set_config(") || strings.Contains(sql, "''") || strings.Contains(sql, "E'") {
		return sql, nil
	}
	return constant.ReplaceAllStringFunc(sql, func(c string) string {
		values = append(values, []byte(strings.Trim(c, "'")))
		return fmt.Sprintf("$%d", len(values))
	}), values
}

// Sessions that set things by chance, in every way there is, on a single connection
// to each server, find what sessions on the server itself find (rule 20).
func TestSettingsAtRandom(t *testing.T) {
	t.Parallel()
	r := newSettingsRig(t, 1)
	const sessions = 4
	t.Logf("seed %d", *settingsSeed)
	chance := rand.New(rand.NewPCG(*settingsSeed, 0))
	var pairs []*pair
	for range sessions {
		pairs = append(pairs, r.pair(t, chance))
	}
	for i := range *settingsSteps {
		p := pairs[chance.IntN(sessions)]
		for p.query("SELECT 1"); ; {
			var several []string
			for range 1 + chance.IntN(4) {
				several = append(several, p.statement())
			}
			var ok bool
			switch chance.IntN(4) {
			case 0:
				ok = p.query(strings.Join(several, []string{";", " ; ", "; -- x\n"}[chance.IntN(3)]))
			case 1:
				ok = p.pipeline(several)
			default:
				ok = p.query(several[0])
			}
			if !ok || !p.query(ask) {
				t.Fatalf("step %d of seed %d", i, *settingsSeed)
			}
			if p.status != 'I' {
				continue
			}
			if chance.IntN(3) == 0 || p.pinned() {
				break
			}
		}
		if p.pinned() {
			if !p.query("DISCARD ALL") || p.pinned() {
				t.Fatalf("step %d of seed %d: DISCARD ALL", i, *settingsSeed)
			}
		}
	}
}

// pinned reports whether the session is bound to the only connection.
func (p *pair) pinned() bool {
	for _, m := range p.through.query("SHOW pgpilot.session") {
		if m[0] == 'D' {
			return strings.Contains(m, "session state")
		}
	}
	return false
}

// pair opens a pair of sessions.
func (r *rig) pair(t *testing.T, chance *rand.Rand) *pair {
	t.Helper()
	p := &pair{T: t, r: chance, told: [2]map[string]string{{}, {}}, status: 'I'}
	p.through, p.straight = r.twins(t)
	return p
}

// newSettingsRig is newSameRig with roles and schemas to choose, and so many
// connections to each server.
func newSettingsRig(t *testing.T, size int) *rig {
	t.Helper()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must("CREATE ROLE alice; CREATE ROLE bob; GRANT alice, bob TO pgpilot")
	for _, name := range []string{"same_pilot", "same_direct"} {
		su.must("CREATE DATABASE " + name + " OWNER pgpilot")
		c, err := dial(t, cluster.Primary().DSNFor("pgpilot", "pgpilot", name))
		if err != nil {
			t.Fatal(err)
		}
		c.must(`CREATE SCHEMA s1; CREATE SCHEMA s2; CREATE TABLE s1.v (n int); CREATE TABLE s2.v (n text); CREATE TABLE public.v (n bigint);
			GRANT ALL ON SCHEMA s1 TO alice; GRANT ALL ON ALL TABLES IN SCHEMA s1, s2 TO alice`)
		c.close()
	}
	r := newRig(t, cluster, narrow(size))
	r.caughtUp()
	return r
}
