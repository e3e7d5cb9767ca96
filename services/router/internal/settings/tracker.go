package settings

import (
	"slices"
	"strings"
)

// Tracker follows what a session has set, as the server says that statements have
// run: a transaction that fails undoes what it has set, and so does ROLLBACK TO. The
// zero value has nothing set.
type Tracker struct {
	list List
	// channels are those that the session listens on.
	channels map[string]bool
	// levels are the transaction that is open and its savepoints; none if nothing in
	// it matters so far.
	levels []level
	failed bool
	// lost says that the settings cannot be given to another connection.
	lost bool
}

type level struct {
	savepoint string
	changes   []change
}

// masking stands for parameters of which it is not known that they are set, and to what: one may be
// at its default until the transaction ends.
var masking = change{kind: None}

// add notes a change. What was local of an application's parameter is replaced: it may be set
// anew for each row, and nothing depends on its values but the last. So is one that is not known
// either, unless something was set behind it: that depends on the role.
func (l *level) add(c change) {
	switch {
	case c == masking:
		if slices.Contains(l.changes, c) {
			return
		}
	case c.kind != Local:
	case strings.Contains(c.Name, "."):
		l.changes = slices.DeleteFunc(l.changes, func(was change) bool { return was.kind == Local && was.Name == c.Name })
	case c.SQL == unsure:
		for i := len(l.changes) - 1; i >= 0 && l.changes[i].kind != Set; i-- {
			if l.changes[i] == c {
				l.changes = slices.Delete(l.changes, i, i+1)
				break
			}
		}
	}
	l.changes = append(l.changes, c)
}

// change is one of a parameter or, by how it was made, of a channel called Name.
type change struct {
	Change
	kind Kind
}

// How much a transaction may set and how many savepoints it may have before it is
// no longer followed.
const (
	maxLevels  = 256
	maxChanges = 256
)

// List gives what is set between transactions. It is valid until the next change.
func (t *Tracker) List() *List { return &t.list }

// Lost reports whether the settings are not known or cannot be given to another
// connection: there are too many, or they were made with the rights of a role that
// was given up since.
func (t *Tracker) Lost() bool { return t.lost }

// Listens reports whether the session listens on a channel, between transactions.
func (t *Tracker) Listens() bool { return len(t.channels) > 0 }

// Open reports whether the transaction at hand has set something.
func (t *Tracker) Open() bool {
	for i := range t.levels {
		if len(t.levels[i].changes) > 0 {
			return true
		}
	}
	return false
}

// Now gives what is set at this moment, in the transaction at hand.
func (t *Tracker) Now() List {
	l := t.list
	for i := range t.levels {
		for _, c := range t.levels[i].changes {
			if c.kind == Set || c.kind == Local {
				l, _ = l.with(c.Change)
			}
		}
	}
	return l
}

// hidden reports whether a parameter is at its default until the transaction ends:
// RESET ALL passes it by, and what the session has set is back afterwards.
func (t *Tracker) hidden() bool {
	for i := range t.levels {
		for _, c := range t.levels[i].changes {
			if c == masking || c.kind == Local && c.SQL == "" {
				return true
			}
		}
	}
	return false
}

// rolledBack is the tag of a COMMIT that has found its transaction failed.
const rolledBack = "ROLLBACK"

// Ran notes that a command has been executed, with its command tag.
func (t *Tracker) Ran(c *Command, tag []byte) {
	if c.Besides {
		t.top().add(masking)
	}
	switch c.Kind {
	case Set, Local:
		top := t.top()
		for _, ch := range c.Changes {
			if ch == (Change{}) && t.hidden() {
				t.Lose()
				return
			}
			if c.Kind == Local && strings.Contains(ch.Name, ".") && !IsOwn(ch.Name) && ch.SQL != "" {
				ch.SQL = ch.Name // whatever it is, nobody asks
			}
			top.add(change{ch, c.Kind})
		}
		t.bound(top)
	case Listen, Unlisten:
		top := t.top()
		top.changes = append(top.changes, change{Change{Name: c.Name}, c.Kind})
		t.bound(top)
	case Commit:
		if string(tag) == rolledBack {
			t.levels = t.levels[:0]
		}
		t.commit()
	case Prepare:
		switch {
		case string(tag) != rolledBack:
			t.commit()
		case t.Open():
			// Outside of a transaction block, where it does nothing, it says so, too.
			t.Lose()
		}
	case Rollback:
		t.levels = t.levels[:0]
	case None, Begin, Other:
	case Savepoint:
		t.top()
		t.levels = append(t.levels, level{savepoint: c.Name})
		if len(t.levels) > maxLevels {
			t.Lose()
		}
	case Release:
		if i := t.find(c.Name); i > 0 {
			into := &t.levels[i-1]
			for _, l := range t.levels[i:] {
				for _, c := range l.changes {
					into.add(c)
				}
			}
			t.levels = t.levels[:i]
		}
	case RollbackTo:
		if i := t.find(c.Name); i > 0 {
			t.levels = append(t.levels[:i], level{savepoint: c.Name})
		} else if t.Open() {
			t.Lose() // one that nobody has seen: what has been set since is not known
		}
	}
}

// Failed notes that the server has said that something failed.
func (t *Tracker) Failed() { t.failed = true }

// Ready notes that the server is ready for the next request; idle says that no
// transaction is open. What was set outside of a transaction block stays if nothing
// of the request has failed.
func (t *Tracker) Ready(idle bool) {
	if idle {
		if t.failed {
			t.levels = t.levels[:0]
		} else {
			t.commit()
		}
	}
	t.failed = false
}

// Clear forgets everything: DISCARD ALL has run.
func (t *Tracker) Clear() { *t = Tracker{} }

// commit makes the changes stay that are not local.
func (t *Tracker) commit() {
	borrowed := false // whether a role of the transaction's is in force
	for i := range t.levels {
		for _, c := range t.levels[i].changes {
			switch {
			case c.kind != Set && c.kind != Local:
			case c.Name == role, c.Name == anything, c.Name == "session_authorization":
				borrowed = c.kind == Local
			case borrowed && c.kind == Set && c.SQL != "" && !free(c.Name):
				t.lost = true // what was set with its rights cannot be set again without them
			}
			t.keep(c)
		}
	}
	t.levels = t.levels[:0]
}

// free reports whether everybody may set the parameter: one with a dot that is no
// extension's is the application's own ("Customized Options").
func free(name string) bool {
	prefix, _, dotted := strings.Cut(name, ".")
	return dotted && !ofExtensions[prefix]
}

// ofExtensions are the prefixes of parameters of PostgreSQL's modules and of common extensions,
// some of which only superusers may set.
var ofExtensions = func() map[string]bool {
	m := map[string]bool{}
	for prefix := range strings.FieldsSeq(`age anon auth_delay auto_explain autoprewarm basic_archive bdr citus columnar credcheck cron
		duckdb hypopg isn login_hook orafce passwordcheck pg_failover_slots pg_hint_plan pg_net pg_partman_bgw pg_prewarm pg_qualstats
		pg_squeeze pg_stat_kcache pg_stat_monitor pg_stat_statements pg_tle pg_trgm pg_wait_sampling pgaudit pglogical pgsodium pgtle
		plan_filter pljava plperl plpgsql plpgsql_check plprofiler plrust pltcl plv8 postgis postgres_fdw powa rds safeupdate sepgsql
		set_user spock squeeze supautils timescaledb vault wal2json`) {
		m[prefix] = true
	}
	return m
}()

func (t *Tracker) keep(c change) {
	switch c.kind {
	case Set:
		l, ok := t.list.with(c.Change)
		t.list, t.lost = l, t.lost || !ok
	case Listen:
		if t.channels == nil {
			t.channels = map[string]bool{}
		}
		t.channels[c.Name] = true
		t.lost = t.lost || len(t.channels) > maxChanges
	case Unlisten:
		delete(t.channels, c.Name)
		if c.Name == "" {
			clear(t.channels)
		}
	default: // it has ended
	}
}

// bound gives up if a transaction changes too much.
func (t *Tracker) bound(l *level) {
	if len(l.changes) > maxChanges {
		t.Lose()
	}
}

// Begun reports whether the transaction at hand has set something or has savepoints.
func (t *Tracker) Begun() bool { return len(t.levels) > 0 }

// Depth is how many levels the transaction at hand has: itself, if something in it matters,
// and each savepoint.
func (t *Tracker) Depth() int { return len(t.levels) }

// Lose gives up following the settings: what is run may end the transaction, or
// begin a savepoint in it, and nobody will know.
func (t *Tracker) Lose() {
	t.lost = true
	t.levels = t.levels[:0]
}

func (t *Tracker) top() *level {
	if len(t.levels) == 0 {
		t.levels = append(t.levels, level{})
	}
	return &t.levels[len(t.levels)-1]
}

// find gives the innermost savepoint of the name, 0 for none: the transaction
// itself has none.
func (t *Tracker) find(name string) int {
	for i := len(t.levels) - 1; i > 0; i-- {
		if t.levels[i].savepoint == name {
			return i
		}
	}
	return 0
}
