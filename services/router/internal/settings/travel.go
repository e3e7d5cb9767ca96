package settings

import (
	"maps"
	"slices"
)

// Baggage is what of a Tracker travels between routers. It shares nothing that
// changes.
type Baggage struct {
	// Settings and Channels are those between transactions.
	Settings []Change
	Channels []string
	// Levels are the open transaction's and its savepoints'.
	Levels []Level
	Lost   bool
}

// Level is what a transaction, or a savepoint in it, has changed.
type Level struct {
	Savepoint string
	Changes   []Made
}

// Made is a change with how it was made: Set, Local, Listen or Unlisten.
type Made struct {
	Change
	Kind Kind
}

// Depart gives what travels. The server must be ready for the next request.
func (t *Tracker) Depart() Baggage {
	b := Baggage{Settings: slices.Clone(t.list.settings), Channels: slices.Sorted(maps.Keys(t.channels)), Lost: t.lost}
	for i := range t.levels {
		l := Level{Savepoint: t.levels[i].savepoint}
		for _, c := range t.levels[i].changes {
			l.Changes = append(l.Changes, Made{c.Change, c.kind})
		}
		b.Levels = append(b.Levels, l)
	}
	return b
}

// Arrive makes the tracker of a session that has moved here.
func Arrive(b Baggage) Tracker {
	t := Tracker{list: Of(b.Settings), lost: b.Lost}
	for _, name := range b.Channels {
		t.keep(change{Change{Name: name}, Listen})
	}
	for i := range b.Levels {
		l := level{savepoint: b.Levels[i].Savepoint}
		for _, c := range b.Levels[i].Changes {
			l.changes = append(l.changes, change{c.Change, c.Kind})
		}
		t.levels = append(t.levels, l)
	}
	return t
}

var kindNames = [...]string{
	None: "none", Set: "set", Local: "local", Begin: "begin", Commit: "commit", Rollback: "rollback", Savepoint: "savepoint",
	Release: "release", RollbackTo: "rollback_to", Listen: "listen", Unlisten: "unlisten", Prepare: "prepare", Other: "other",
}

// String gives the name that travels.
func (k Kind) String() string { return kindNames[k] }

// KindOf reads what String gives. A name that is not known is a newer router's, of whose
// records the version says so.
func KindOf(name string) Kind {
	return Kind(max(0, slices.Index(kindNames[:], name)))
}
