package session_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/pgpilot/pgpilot/services/router/internal/fence"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// travels says of every field of a session, and of what it is made of, where it is in a
// record, or why it is not: "-" and the reason. What is added to a session has to be
// added here.
var travels = map[string]map[string]string{
	"session.Session": {
		"env": "- the owner's", "rec": "the record", "phase": "Skipping; all other safe phases begin again as Idle", "steps": "- counts here",
		"out": "- empty at a safe point", "scratch": "- made here, sent", "built": "- made here, sent", "status": "Status", "block": "Block", "fence": "Fence", "token": "- of what is read again", "aside": "- of isAside: any replica, in the mode causal", "isAside": "Fence.Aside",
		"pins": "Pin", "held": "Leases", "set": "Settings, Levels, Channels, Lost", "parsing": "- follows from set", "unfit": "- numbers of servers here: they are asked again",
		"epoch": "Epoch", "asked": "- of a wait that begins again", "applies": "- of a wait that begins again", "interrupted": "- false at a safe point",
		"at": "Leases: the slot of the one that is held", "verdict": "- of what is read again", "known": "- of what is read again", "problem": "- not refused",
		"seq": "- of what is read again", "named": "Prepared", "unnamed": "Prepared", "spare": "- memory", "rows": "- memory", "latest": "Portals", "here": "Portals", "forgetful": "- taken for granted in a transaction",
		"missing": "- nil at a safe point", "exact": "- of missing", "asking": "- false at a safe point",
		"dim": "- follows from Lease.Used", "amending": "- of what is being answered", "sweeps": "- of what is being answered", "roams": "- of what is being answered", "retunes": "- of what is being answered", "owed": "- empty at a safe point", "blocked": "- false at a safe point", "forgetting": "- of blocked", "readies": "- of what is being answered", "discards": "- of what is being answered",
		"extended": "- of what is being answered", "taken": "- of what is being answered", "written": "Written", "opaque": "- of what is being answered",
		"fromClient": "- zero at a safe point", "fromServer": "- zero at a safe point", "discard": "- of fromClient", "hidden": "- of fromServer", "stepped": "Lease.Stepped, Lease.Idle", "again": "in front of the unread bytes",
		"replayed": "- of a read that begins again", "retry": "- of a read that runs", "tried": "- of a wait that begins again", "retreating": "- false at a safe point", "doubted": "- of a read that begins again",
		"began": "the record's startup parameters", "own": "- follows from set", "hint": "- of what is read again", "admitted": "- of what is read again", "warned": "Warned", "given": "Fence.Given", "among": "- of what is read again", "behind": "- of what is being answered",
		"recovered": "- of what is being answered", "stale": "Stale", "sql": "- follows from named", "executing": "- of what is read again",
		"refreshing": "- of what is read again", "refreshed": "- of what is read again", "outer": "- of what is read again",
		"strange": "- of a wait that begins again", "equipping": "- nothing at a safe point", "equipped": "- of what is read again",
		"fatal": "- false at a safe point", "word": "- nil at a safe point", "leaving": "- Live.Leaving, if it is to end wherever it is: the owner's", "shown": "Shown", "last": "LastRoute",
		"escapes": "Shown; what a connection says counts wherever it is",
		"altered": "- the next connection tells it",
	},
	"session.held": {
		"ok": "Leases", "used": "Lease.Used", "roleless": "Lease.Used", "indelible": "Lease.Indelible", "stepped": "Lease.Stepped", "by": "Lease.Backend, Lease.Run", "timeline": "- told with every grant", "replayed": "- told with every grant", "asOf": "- told with every grant", "lent": "- counts here", "statements": "Lease.Statements, Lease.Unnamed", "settings": "Lease.Settings",
		"reported": "- the owner's, who puts it into Lease.Reported",
	},
	"session.block": {
		"state": "Block.State", "modes": "Block.Begin", "portal": "Block.Portal", "limit": "Block.IdleMicros", "on": "Block.Timeline", "unsure": "- BEGIN has been answered at a safe point", "resync": "- of what is being answered",
		"replica": "Lease.Replica, Block.State", "ran": "Block.Ran",
	},
	"session.Statement": {
		"client": "Prepared.Name", "body": "Prepared.Text, Prepared.Types", "text": "- follows from body", "id": "- follows from body and parsing", "server": "- follows from id",
		"hint": "- follows from body", "hintless": "- follows from body", "verdict": "Prepared.Kind, Effects, Fingerprint; it is asked for again", "raw": "Prepared.Raw", "sql": "Prepared.SQL", "local": "Prepared.Local", "forgets": "Prepared.Forgets", "drops": "- follows from body", "copies": "- follows from body",
		"birth": "Prepared.Current; of others it begins again", "told": "Prepared.Params, Prepared.Rows", "cmds": "Prepared.Followed", "parsing": "Prepared.Environment", "passing": "Prepared.Passing",
	},
	"session.portal": {"name": "Portal.Name", "st": "Portal.Statement", "ran": "Portal.Ran", "depth": "Portal.Depth", "cmds": "Portal.Commands"},
	"session.Statements": {
		"held": "Lease.Statements", "clock": "- their order", "hold": "- of a sequence that runs", "unnamed": "Lease.Unnamed", "unnamedID": "Held.Name",
		"sql": "Lease.Named",
	},
	"session.heldStatement": {"used": "- their order", "stale": "Held.Stale", "told": "Held.Params, Held.Rows", "from": "Prepared.Current"},
	"fence.State": {
		"position": "Fence.Position", "clock": "- counts here", "settled": "Fence.Dirty, Seen.Unsettled", "written": "Fence.Dirty", "writer": "Fence.Backend, Fence.Writer",
		"mixed": "Fence.Backend, Fence.Writer: empty", "seen": "Seen.Unsettled", "home": "Seen.Backend, Seen.Server", "timeline": "Seen.Timeline", "arrived": "- of a read that begins again",
	},
	"settings.Tracker": {"list": "Settings", "channels": "Channels", "levels": "Levels", "failed": "- false when the server is ready", "lost": "Lost"},
}

func TestEveryFieldTravelsOrSaysWhyNot(t *testing.T) {
	var s session.Session
	of := reflect.TypeOf(s)
	inside := func(t reflect.Type, field string) reflect.Type {
		f, ok := t.FieldByName(field)
		if !ok {
			return nil
		}
		e := f.Type
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, e.Kind()) {
			e = e.Elem()
		}
		return e
	}
	for _, typ := range []reflect.Type{
		of, inside(of, "held"), inside(of, "named"), inside(of, "latest"), inside(of, "block"),
		reflect.TypeOf(session.Statements{}), inside(reflect.TypeOf(session.Statements{}), "held"),
		reflect.TypeOf(fence.State{}), reflect.TypeOf(settings.Tracker{}),
	} {
		said := travels[typ.String()]
		for i := range typ.NumField() {
			if name := typ.Field(i).Name; said[name] == "" {
				t.Errorf("%s.%s: put it into the record (moving.go, travel.go), or say in the test why it need not travel", typ, name)
			}
		}
		for name := range said {
			if _, ok := typ.FieldByName(name); !ok {
				t.Errorf("%s has no %s", typ, name)
			}
		}
	}
}
