package builtin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// binsEnv lists folders of more PostgreSQL versions' programs, parted by colons,
// whose functions must be in the table too.
const binsEnv = "PGPILOT_PG_BINS"

// proc is a function of a server's pg_catalog.
type proc struct {
	Name, Types string
	Volatility  string
	// Internal functions take or give values that no query has, or are triggers.
	Internal bool
}

// TestEveryVersion holds the table against pg_proc of the usual server and of
// those in PGPILOT_PG_BINS.
func TestEveryVersion(t *testing.T) {
	seen := make(map[string]bool)
	t.Run("installed", func(t *testing.T) { check(t, labtest.Start(t, 0), seen) })
	bins := filepath.SplitList(os.Getenv(binsEnv))
	for _, bin := range bins {
		t.Run(bin, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c, err := lab.Start(ctx, lab.Options{Dir: t.TempDir(), BinDir: bin, FastUnsafe: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := c.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			check(t, c, seen)
		})
	}
	if len(bins) < 3 {
		return // without all versions a name may only seem to be nobody's
	}
	for name := range named {
		if base, _, _ := strings.Cut(name, "("); !seen[base] {
			t.Errorf("no version has a function %s", name)
		}
	}
}

func check(t *testing.T, c *lab.Cluster, seen map[string]bool) {
	for _, p := range procs(t, c) {
		seen[p.Name] = true
		f := Lookup(p.Name, p.Types, p.Volatility[0])
		_, byTypes := named[p.Name+"("+p.Types+")"]
		_, byName := named[p.Name]
		listed := byTypes || byName
		switch {
		case p.Volatility == "v" && !listed:
			t.Errorf("%s(%s) is volatile and not in the table", p.Name, p.Types)
		case p.Volatility == "s" && suspicious.MatchString(p.Name) && !listed:
			t.Errorf("%s(%s) is stable, suspicious and not in the table", p.Name, p.Types)
		case p.Volatility == "v" && f.Group == Volatility:
			t.Errorf("%s(%s) is volatile, it cannot go by that", p.Name, p.Types)
		case f.Group == Harmless && p.Volatility == "i":
			t.Errorf("%s(%s) is immutable, it needs no exception", p.Name, p.Types)
		case p.Internal && p.Volatility == "v" && f.Reads():
			t.Errorf("%s(%s) is internal, it cannot be a read", p.Name, p.Types)
		}
		if f.Reads() && f.Effects != 0 {
			t.Errorf("%s(%s) reads and leaves %v", p.Name, p.Types, f.Effects)
		}
	}
}

// The same server's operators, casts, aggregates and types must not hide a
// function that may not run on a replica: judges look at their names alone.
func TestNoOperatorCastOrTypeHidesAFunction(t *testing.T) {
	c := labtest.Start(t, 0)
	for what, members := range map[string]string{
		"operator":  `SELECT oprcode::oid FROM pg_operator WHERE oprcode <> 0`,
		"estimator": `SELECT oprrest::oid FROM pg_operator WHERE oprrest <> 0 UNION SELECT oprjoin::oid FROM pg_operator WHERE oprjoin <> 0`,
		"cast":      `SELECT castfunc FROM pg_cast WHERE castfunc <> 0`,
		"index":     `SELECT amproc::oid FROM pg_amproc`,
		"aggregate": `SELECT unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn,
			aggmtransfn, aggminvtransfn, aggmfinalfn]::oid[]) FROM pg_aggregate`,
		"output": `SELECT unnest(ARRAY[typoutput, typsend]::oid[]) FROM pg_type WHERE typtype <> 'p'`,
		// Those of arrays, records, ranges and domains do what the type in question does.
		"input":     `SELECT unnest(ARRAY[typinput, typreceive]::oid[]) FROM pg_type WHERE typtype = 'b' AND typelem = 0`,
		"subscript": `SELECT typsubscript::oid FROM pg_type WHERE typsubscript <> 0`,
	} {
		t.Run(what, func(t *testing.T) {
			found := query(t, c, `SELECT proname::text, replace(oidvectortypes(proargtypes), ', ', ','), provolatile::text, false
				FROM pg_proc WHERE oid IN (`+members+`)`)
			if len(found) == 0 {
				t.Fatal("nothing found: the query is wrong")
			}
			for _, p := range found {
				if f := Lookup(p.Name, p.Types, p.Volatility[0]); !f.Reads() {
					t.Errorf("hides %s(%s): %s", p.Name, p.Types, f.Reason)
				}
			}
		})
	}
}

// A row of a table can be the argument of a function that takes any row. Judges
// do not look for those among PostgreSQL's own.
func TestNoFunctionOfARowIsDangerous(t *testing.T) {
	for _, p := range query(t, labtest.Start(t, 0), `SELECT proname::text, replace(oidvectortypes(proargtypes), ', ', ','),
		provolatile::text, false FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
		AND pronargs - pronargdefaults <= 1 AND proargtypes[0] IN ('record'::regtype, '"any"'::regtype, 'anyelement'::regtype,
		'anycompatible'::regtype, 'anynonarray'::regtype, 'anycompatiblenonarray'::regtype)`) {
		if f := Lookup(p.Name, p.Types, p.Volatility[0]); !f.Reads() {
			t.Errorf("t.%s is a call of %s(%s)", p.Name, p.Name, p.Types)
		}
	}
}

func procs(t *testing.T, c *lab.Cluster) []proc {
	return query(t, c, `SELECT proname::text, replace(oidvectortypes(proargtypes), ', ', ','), provolatile::text,
		prorettype IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
			OR proargtypes::oid[] @> ARRAY['internal'::regtype::oid]
		FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace`)
}

func query(t *testing.T, c *lab.Cluster, sql string) []proc {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.Primary().DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[proc])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each known trap of rules 24 to 26 of the protocol page is where it belongs.
func TestKnownTraps(t *testing.T) {
	for group, names := range map[Group]string{
		Silent: `set_config setseed pg_advisory_lock pg_try_advisory_xact_lock pg_export_snapshot pg_stat_reset
			pg_cancel_backend pg_terminate_backend pg_reload_conf pg_wal_replay_pause pg_promote query_to_xml
			cursor_to_xml table_to_xml ts_stat nextval setval pg_notify domain_in pg_input_is_valid`,
		Answers: `currval lastval pg_backend_pid txid_current pg_current_snapshot pg_my_temp_schema pg_listening_channels
			pg_stat_get_numscans pg_lock_status pg_cursor pg_prepared_statement pg_prepared_xact lo_get lo_open
			pg_is_in_recovery current_setting`,
		Harmless: `clock_timestamp timeofday gen_random_uuid random pg_sleep pg_sleep_for pg_sleep_until
			pg_table_size inet_server_addr inet_server_port`,
	} {
		for _, name := range strings.Fields(names) {
			// Whatever the catalog says of it: some are marked stable.
			for _, volatility := range []byte("vs") {
				if f := Lookup(name, "text", volatility); f.Group != group {
					t.Errorf("%s is in group %s, want %s", name, f.Group, group)
				}
			}
		}
	}
	for _, overload := range []struct {
		name, types string
		volatility  byte
		reads       bool
	}{
		{"ts_rewrite", "tsquery,text", 'v', false},
		{"ts_rewrite", "tsquery,tsquery,tsquery", 'i', true},
		{"age", "xid", 's', false},
		{"age", "timestamp with time zone", 's', true},
		{"lower", "text", 'i', true},
		{"novelty", "text", 'v', false},
		{"novelty", "text", 's', true},
		{"pg_get_wal_novelty", "", 's', false},
	} {
		if f := Lookup(overload.name, overload.types, overload.volatility); f.Reads() != overload.reads {
			t.Errorf("%+v: %+v", overload, f)
		}
	}
	for name, effects := range map[string]verdict.Effect{"set_config": verdict.Session, "nextval": verdict.Sequences, "pg_notify": 0} {
		if f, ok := Named(name); !ok || f.Effects != effects {
			t.Errorf("%s leaves %v, want %v", name, f.Effects, effects)
		}
	}
	if f, ok := Named("ts_rewrite"); !ok || f.Reads() {
		t.Error("the worst overload of ts_rewrite is overlooked")
	}
}

func TestSpoiledTablesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no reason": "silent none f", "group": "loud none f because", "effect": "silent melts f because",
		"twice": "silent none f because\nanswers none f because", "read with effects": "harmless session f because",
	} {
		if m, err := read(text, ""); err == nil {
			t.Errorf("%s: read as %v", name, m)
		}
	}
}

// Who judges nothing, for want of a parser or in time, knows these by their names.
func TestUnjudgedCallsOfFunctionsThatLeaveSomething(t *testing.T) {
	scanner := sqltoken.NewScanner(sqltoken.Secret{})
	seen := 0
	for _, table := range []map[string]Function{named, ofExtension} {
		for name, f := range table {
			if f.Effects&(verdict.Session|verdict.Sequences) == 0 || strings.HasSuffix(name, " autoinc") { // triggers call that
				continue
			}
			seen++
			name, _, _ = strings.Cut(name[strings.LastIndex(name, " ")+1:], "(")
			text := []byte("SELECT " + name + "()")
			r, err := scanner.Scan(text, &sqltoken.Options{ServerMajor: 17})
			if err != nil {
				t.Fatal(err)
			}
			got := verdict.Unjudged(text, r, 17).Effects
			if got&(verdict.Session|verdict.Sequences) == 0 || f.Effects.Has(verdict.Indelible) && !got.Has(verdict.Indelible) {
				t.Errorf("%s: what %s leaves would go with the connection", text, name)
			}
		}
	}
	if seen < 10 {
		t.Errorf("the tables have %d functions that leave something", seen)
	}
}
