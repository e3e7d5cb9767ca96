package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// disturb has another session take the only connection to each server, with other
// settings.
func (r *rig) disturb(t *testing.T, other *pair) {
	t.Helper()
	if !other.query("SET TIME ZONE 'Etc/GMT-11'; SET work_mem = '7MB'; SET my.client = 'other'") || !other.query(ask) {
		t.FailNow()
	}
}

// Settings that build on one another, and those that cannot be had any longer, with
// another session on the only connection in between (rule 20).
func TestSettingsWithAnotherInBetween(t *testing.T) {
	t.Parallel()
	r := newSettingsRig(t, 1)
	long := strings.Repeat("x", 70)
	var many strings.Builder
	for i := range 70 {
		fmt.Fprintf(&many, "SET many.v%d = '%d';", i, i)
	}
	const zone = "SELECT current_setting('TimeZone')"
	for _, c := range []struct {
		name  string
		steps []string // those that begin with '|' in one pipeline
		ask   string
	}{
		{"parts of DateStyle", []string{"SET DateStyle = 'SQL'", "SET DateStyle = 'DMY'"}, ""},
		{"parts of DateStyle, turned", []string{"SET DateStyle = 'DMY'", "SET DateStyle = 'SQL'"}, ""},
		{"parts of DateStyle, back", []string{"SET DateStyle = 'German'", "SET DateStyle = 'YMD'", "SET DateStyle = 'ISO'"}, ""},
		{"more than are followed", []string{many.String()}, "SELECT current_setting('many.v69')"},
		{"more than are followed, one by one", strings.SplitAfter(strings.TrimSuffix(many.String(), ";"), ";"), "SELECT current_setting('many.v69')"},
		{"a long name", []string{"SET my." + long + "a = '1'", "RESET my." + long + "b"}, "SELECT nullif(current_setting('my." + long[:63] + "', true), '')"},
		{"its default, then all reset", []string{"SET work_mem = '5MB'", "|SET LOCAL work_mem TO DEFAULT", "|RESET ALL"}, ""},
		{"prepared outside of a block", []string{"|SET work_mem = '5MB'", "|PREPARE TRANSACTION 'x'"}, ""},
		{"read only for a transaction", []string{"BEGIN; SET transaction_read_only = on; COMMIT", "INSERT INTO v VALUES (1)"}, ""},
		{"an error behind it", []string{"SET TIME ZONE 'Etc/GMT-5'; SELECT 1/0"}, ""},
		{"an error behind its end", []string{"SET TIME ZONE 'Etc/GMT-5'; COMMIT; SELECT 1/0"}, ""},
		{"an error in another sequence", []string{"|SET TIME ZONE 'Etc/GMT-6'", "|SYNC", "|SET TIME ZONE 'Etc/GMT-7'", "|SELECT 1/0"}, ""},
		{"implicit transaction committed", []string{"|SET TIME ZONE 'Etc/GMT-6'", "|COMMIT", "|SET TIME ZONE 'Etc/GMT-7'", "|SELECT 1/0"}, ""},
		{"implicit transaction begun", []string{"|SET TIME ZONE 'Etc/GMT-6'", "|BEGIN", "|SET TIME ZONE 'Etc/GMT-7'", "ROLLBACK"}, ""},
		{"implicit transaction rolled back", []string{"|SET TIME ZONE 'Etc/GMT-6'", "|ROLLBACK", "|SET TIME ZONE 'Etc/GMT-7'"}, ""},
		{"implicit, with local", []string{"|SET LOCAL TIME ZONE 'Etc/GMT-6'", "|SET work_mem = '3MB'"}, ""},
		{"of a function, in a transaction", []string{"BEGIN", "SET TIME ZONE 'Etc/GMT-6'", "SELECT set_config('TimeZone', 'Etc/GMT-7', true)", "COMMIT"}, ""},
		{"of a function", []string{"SELECT set_config('TimeZone', 'Etc/GMT-7', false)", "ROLLBACK"}, ""},
		{"undone by a savepoint", []string{"BEGIN", "SET TIME ZONE 'Etc/GMT-1'", "SAVEPOINT a", "SET TIME ZONE 'Etc/GMT-2'", "SAVEPOINT a", "SET LOCAL TIME ZONE 'Etc/GMT-3'", "RELEASE a", "ROLLBACK TO a", "COMMIT"}, ""},
		{"local, then not", []string{"BEGIN; SET LOCAL TIME ZONE 'Etc/GMT-1'; SET TIME ZONE 'Etc/GMT-2'; SET LOCAL TIME ZONE 'Etc/GMT-3'; COMMIT"}, ""},
		{"savepoint with a long name", []string{"BEGIN", "SAVEPOINT " + long + "a", "SET TIME ZONE 'Etc/GMT-2'", "ROLLBACK TO " + long + "b", "COMMIT"}, ""},
		{"a deferred constraint fails the commit", []string{"CREATE TABLE IF NOT EXISTS p (a int PRIMARY KEY); CREATE TABLE IF NOT EXISTS q (a int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
			"BEGIN", "SET TIME ZONE 'Etc/GMT-2'", "INSERT INTO q VALUES (1)", "COMMIT"}, ""},
		{"and in a pipeline", []string{"|SET TIME ZONE 'Etc/GMT-2'", "|INSERT INTO q VALUES (1)"}, ""},
		{"a prepared transaction", []string{"BEGIN", "SET TIME ZONE 'Etc/GMT-5'", "PREPARE TRANSACTION 'x'"}, ""},
		{"prepared once, run after others", []string{"PREPARE x AS SELECT '2024-01-01 00:00+00'::timestamptz::text, * FROM v LIMIT 1", "SET search_path = s2; SET TIME ZONE 'Etc/GMT-5'", "EXECUTE x", "RESET ALL", "EXECUTE x", "SET search_path = s1", "EXECUTE x", "DEALLOCATE x"}, zone},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, other := r.pair(t, nil), r.pair(t, nil)
			var batch []pgproto3.FrontendMessage
			what, ready := "", 1
			flush := func() {
				if batch != nil {
					p.send(what, append(batch, &pgproto3.Sync{}), ready)
				}
				batch, what, ready = nil, "", 1
			}
			for _, step := range c.steps {
				sql, alike := strings.CutPrefix(step, "|")
				switch {
				case step == "|SYNC":
					batch = append(batch, &pgproto3.Sync{})
					ready++
				case alike:
					batch = append(batch, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{})
					what += step
				default:
					flush()
					if p.status == 'I' && !p.pinned() {
						r.disturb(t, other)
					}
					p.query(step)
				}
			}
			flush()
			for range 2 {
				if p.status == 'I' && !p.pinned() {
					r.disturb(t, other)
				}
				p.query(ask)
				if c.ask != "" {
					p.query(c.ask)
				}
			}
			if p.status != 'I' {
				p.query("ROLLBACK")
			}
			p.query("DISCARD ALL")
			p.query(ask)
		})
	}
}

// A statement parsed where SET LOCAL leads names elsewhere is not what another
// session means by the same text (rule 14).
func TestLocalSettingsWhenParsed(t *testing.T) {
	t.Parallel()
	r := newSettingsRig(t, 1)
	p, other := r.pair(t, nil), r.pair(t, nil)
	run := func(p *pair, value string) {
		t.Helper()
		p.query("INSERT INTO v VALUES ('1')")
		p.send("SELECT n = $1 FROM v", []pgproto3.FrontendMessage{&pgproto3.Parse{Name: "x", Query: "SELECT n = $1 FROM v"}, &pgproto3.Describe{ObjectType: 'S', Name: "x"},
			&pgproto3.Bind{PreparedStatement: "x", Parameters: [][]byte{[]byte(value)}}, &pgproto3.Execute{}, &pgproto3.Sync{}}, 1)
	}
	for _, set := range []string{"SET LOCAL search_path = s2", "SET LOCAL search_path TO\n s2", "SELECT 1; SET LOCAL search_path = s2",
		"SELECT set_config('search_path', 's2', true) FROM (VALUES (1)) x"} {
		other.query("BEGIN")
		other.query(set)
		run(other, "a")
		other.query("COMMIT")
		other.query("DISCARD ALL") // the session may be bound to the only connection
		p.query("BEGIN")
		run(p, "1")
		p.query("COMMIT")
		p.query("DISCARD ALL")
	}
}
