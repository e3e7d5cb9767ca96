package session_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// parameters are what has been set in a model server process: SET [LOCAL] a TO v,
// RESET a, RESET ALL, RESET ROLE and SELECT set_config('a','v',false), with savepoints.
// What is set by a string keeps its quotes. A parameter called tz is reported
// when it has changed. One called rare is unknown to replicas.
type parameters struct {
	// session and local are the values of the transaction so far, before those of
	// when it began, and points those of its savepoints.
	session, local map[string]string
	before         map[string]string
	points         []point
	failed         bool
	reported       string
	// account is the router's of them.
	account settings.Hash
}

type point struct {
	name           string
	session, local map[string]string
}

// unset is the value of every parameter that is not set.
const unset = "default"

func newParameters() parameters {
	return parameters{session: map[string]string{}, local: map[string]string{}, before: map[string]string{}, reported: unset}
}

func (q *parameters) value(name string) string {
	for _, m := range []map[string]string{q.local, q.session} {
		if v, ok := m[name]; ok {
			return v
		}
	}
	return unset
}

// all writes everything that is set.
func (q *parameters) all() string {
	var out []string
	both := maps.Clone(q.session)
	maps.Copy(both, q.local)
	for name, v := range both {
		if v != unset && !settings.IsOwn(name) {
			out = append(out, name+"="+v)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// assign executes a SET or RESET, or something about savepoints.
func (p *postgres) assign(stmt string) bool {
	q := &p.params
	f := strings.Fields(strings.ReplaceAll(stmt, `"`, ""))
	tag := f[0]
	p.hidesOwn(stmt)
	switch {
	case strings.HasSuffix(stmt, " TO never"):
		return p.error("22023", `invalid value for parameter "pgpilot.freshness": "never"`, neverHint)
	case stmt == "SELECT":
		p.say("DataRow")
	case tag == "SELECT":
		return p.configure(calls(stmt))
	case tag == "SAVEPOINT" || tag == "RELEASE" || tag == "ROLLBACK":
		return p.savepoint(tag, f[len(f)-1])
	case f[1] == "LOCAL":
		if p.unknown(f[2]) {
			return false
		}
		q.local[f[2]] = f[4]
	case tag == "SET":
		if p.unknown(f[1]) {
			return false
		}
		q.session[f[1]] = f[3]
		delete(q.local, f[1])
	case f[1] == "ALL":
		clear(q.session)
		clear(q.local)
	case f[1] != "ROLE":
		delete(q.session, f[1])
		delete(q.local, f[1])
	}
	p.say("CommandComplete", tag)
	return true
}

// calls takes SELECT set_config(…) apart.
func calls(stmt string) (name, value string, local bool) {
	args := strings.Split(strings.TrimSuffix(strings.TrimPrefix(stmt, "SELECT set_config("), ")"), ",")
	return strings.Trim(args[0], "'"), args[1], args[2] == "true"
}

// configure executes set_config.
func (p *postgres) configure(name, value string, local bool) bool {
	q := &p.params
	switch {
	case p.unknown(name):
		return false
	case value == "NULL":
		value = unset
	}
	if local {
		q.local[name] = value
	} else {
		q.session[name] = value
		delete(q.local, name)
	}
	p.say("CommandComplete", "SELECT 1")
	return true
}

// unknown refuses a parameter that the server does not know.
func (p *postgres) unknown(name string) bool {
	return name == "rare" && p.replica && !p.error("42704", `unrecognized configuration parameter "rare"`)
}

func (p *postgres) savepoint(tag, name string) bool {
	q := &p.params
	if p.status == wire.Idle {
		return p.error("25P01", tag+" can only be used in transaction blocks")
	}
	i := len(q.points) - 1
	for i >= 0 && q.points[i].name != name {
		i--
	}
	switch {
	case tag == "SAVEPOINT":
		q.points = append(q.points, point{name, maps.Clone(q.session), maps.Clone(q.local)})
	case i < 0:
		return p.error("3B001", fmt.Sprintf("savepoint %q does not exist", name))
	case tag == "RELEASE":
		q.points = q.points[:i]
	default:
		q.session, q.local = maps.Clone(q.points[i].session), maps.Clone(q.points[i].local)
		q.points = q.points[:i+1]
		p.status = wire.InTransaction
	}
	p.say("CommandComplete", tag)
	return true
}

// end ends a transaction.
func (q *parameters) end(commit bool) {
	if !commit {
		q.session = maps.Clone(q.before)
	}
	q.before = maps.Clone(q.session)
	clear(q.local)
	q.points, q.failed = nil, false
}

// report tells what has changed, before a ReadyForQuery.
func (p *postgres) report() {
	if v := p.params.value("tz"); v != p.params.reported {
		p.params.reported = v
		p.out = append(p.out, message(wire.ParameterStatus, "tz\x00"+v+"\x00")...)
	}
}

// usedBefore makes it a connection that another session has set something on.
func (p *postgres) usedBefore(name, value string) {
	l := settings.Of([]settings.Change{{Name: name, SQL: name + " TO " + value}})
	p.params.session[name], p.params.before[name] = value, value
	p.params.account = l.Hash()
	p.params.reported = p.params.value("tz")
}
