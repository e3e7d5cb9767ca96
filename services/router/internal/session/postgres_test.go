package session_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// cluster is what the servers of a model share: how many writes the primary has
// executed, how many of them each server shows, and how often each write ran.
type cluster struct {
	writes uint64
	ran    map[string]int
	// version is how often tables have been altered.
	version int
}

// prepared is a statement that a server process holds.
type prepared struct {
	text, types string
	version     int // of the tables, when it was parsed
}

// portal is a statement that runs.
type portal struct {
	st   *prepared
	sent int // rows
	done bool
	// binary says that columns are to come in this format.
	binary bool
}

// postgres is a model of one server process: the message flow of PostgreSQL
// (documentation, "Message Flow"), with statements of a few words. A statement
// is a verb, an argument and an id, which its answers carry:
//
//	rows N, write, LISTEN, UNLISTEN, value (what writes it sees), begin, commit, rollback, fail,
//	standby (a read that fails on one), modes (of the transaction), remember X / recall (state of the session), settings (of it), copyin, copyfail (fails before it
//	reads data), copyout N, notice, defer (fails at commit), alter, DEALLOCATE,
//	DISCARD ALL, PREPARE name AS, EXECUTE name, and about settings what parameters say
type postgres struct {
	cl      *cluster
	replica bool
	// direct says that no router is in between, so that it has the router's parameters
	// itself. Others must not get to see them.
	direct bool
	// shows is how many writes it has replayed; the primary shows all.
	shows uint64

	in, out  []byte
	status   byte
	skipping bool     // until Sync, after an error in an extended sequence
	extended bool     // the last message was of the extended protocol
	copying  string   // the statement that copies in
	rest     []string // of the string that it is in
	stmts    map[string]*prepared
	portals  map[string]*portal
	deferred bool
	memory   string
	block    block
	// alone says that what runs is all of a simple query.
	alone bool
	// listens and stepped say that the session listens, outside of transactions only, and
	// that it has moved a sequence.
	listens, stepped bool
	params           parameters
	dead             bool // it has ended its process
	// canceled says that what it executes next is canceled, if that is there already.
	canceled bool
	// version is what it shows of the cluster's; the primary shows all.
	version int
	// writing is called before a write.
	writing func(stmt string)
	// statements is the account of the connection to it.
	statements session.Statements
}

// stepping is the argument of a write that moves a sequence.
const stepping = "7"

func newPostgres(cl *cluster, replica bool) *postgres {
	return &postgres{cl: cl, status: wire.Idle, replica: replica, stmts: map[string]*prepared{}, portals: map[string]*portal{}, params: newParameters(), writing: func(string) {}}
}

func (p *postgres) say(kind string, args ...string) {
	for i := range args {
		args[i] = `"` + args[i]
	}
	b, err := encode(serverKinds, append([]string{kind}, args...))
	if err != nil {
		panic(err)
	}
	p.out = append(p.out, b...)
}

// step handles one message that has arrived as a whole, and reports whether
// there was one.
func (p *postgres) step() bool {
	typ, total, err := wire.Header(p.in)
	if err != nil || total == 0 || len(p.in) < total || p.dead {
		return false
	}
	body := string(p.in[wire.HeaderSize:total])
	p.in = p.in[total:]
	if p.copying != "" {
		p.copyData(typ, body)
		return true
	}
	p.command(typ, body)
	return true
}

func (p *postgres) command(typ byte, body string) {
	switch typ {
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
		p.extended = false
		return
	case wire.Sync:
		p.skipping, p.extended = false, false
		p.sync()
		return
	case wire.Terminate:
		p.dead = true
		return
	case wire.Query, wire.FunctionCall:
		p.extended = false
	default:
		p.extended = true
	}
	if p.skipping {
		return
	}
	switch typ {
	case wire.Query:
		delete(p.stmts, "")
		delete(p.portals, "")
		stmts := strings.Split(strings.TrimSuffix(body, "\x00"), ";")
		if strings.TrimSpace(strings.Join(stmts, "")) == "" {
			p.say("EmptyQueryResponse")
		}
		if p.mixesOwn(strings.Join(stmts, ";")) {
			return
		}
		p.query(stmts)
	case wire.FunctionCall:
		p.say("FunctionCallResponse")
		p.ready()
	case wire.Parse:
		p.parse(body)
	case wire.Bind:
		p.bind(body)
	case wire.Describe:
		p.describe(body[0], strings.TrimSuffix(body[1:], "\x00"))
	case wire.Execute:
		name, limit, _ := strings.Cut(body, "\x00")
		p.run(name, int(binary.BigEndian.Uint32([]byte(limit))))
	case wire.Close:
		if name := strings.TrimSuffix(body[1:], "\x00"); body[0] == 'S' {
			delete(p.stmts, name)
		} else {
			delete(p.portals, name)
		}
		p.say("CloseComplete")
	}
}

func verb(text string) string { return strings.Fields(text + " ;")[0] }

func (p *postgres) aborted(text string) bool {
	v := verb(text)
	return p.status == wire.Failed && v != "commit" && v != "rollback" && v != "ROLLBACK" && v != "COMMIT" && v != "END" && v != "ABORT"
}

const abortedMessage = "current transaction is aborted, commands ignored until end of transaction block"

func (p *postgres) query(stmts []string) {
	p.alone = len(stmts) == 1
	defer func() { p.alone = false }()
	for i, s := range stmts {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if !p.execute(s, nil) {
			return // with an error, which sends ReadyForQuery
		}
		if p.copying != "" {
			p.rest = stmts[i+1:]
			return
		}
	}
	p.ready()
}

// execute runs one statement, prepared or of a simple query, and reports whether it
// has not failed. Tables are not altered between the Bind and the end.
func (p *postgres) execute(stmt string, st *prepared) bool {
	f := append(strings.Fields(stmt), "", "", "")
	verb, arg, id := f[0], f[1], f[2]
	if p.aborted(stmt) {
		return p.error("25P02", abortedMessage)
	}
	if p.canceled {
		p.canceled = false
		return p.error("57014", "canceling statement due to user request")
	}
	if ofBlock(f) {
		return p.blocks(stmt)
	}
	p.block.queried = p.block.queried || p.status == wire.InTransaction && (returnsRows(stmt) && verb != "SHOW" || verb == "SELECT")
	switch verb {
	case "write", "defer", "alter", "copyin":
		p.writing(stmt)
	case "DEALLOCATE", "DISCARD":
		return p.forget(strings.ToUpper(verb), strings.Trim(arg, `"`))
	case "SHOW":
		return p.showOwn(st == nil)
	case "SET", "RESET", "SAVEPOINT", "RELEASE", "SELECT":
		return p.assign(stmt)
	case "PREPARE":
		return p.prepare(stmt)
	case "EXECUTE":
		st := p.lookup(arg)
		return st != nil && p.execute(st.text, nil)
	case "ROLLBACK":
		if arg == "TO" {
			return p.assign(stmt)
		}
	}
	if p.replica && verb != "rows" && verb != "value" && verb != "standby" && verb != "recall" && verb != "settings" && verb != "copyout" && verb != "fail" {
		panic(promise("a replica was sent " + stmt))
	}
	switch verb {
	case "rows", "value", "standby", "recall", "settings", "modes":
		if verb == "standby" && p.replica {
			return p.error("0A000", "not on a standby")
		}
		version := p.schema()
		if st != nil {
			version = st.version
		} else {
			p.describeRows(stmt, version)
		}
		switch verb {
		case "value":
			p.row(strconv.FormatUint(p.seen(), 10), id, version)
		case "standby":
			p.row("here", id, version)
		case "recall":
			p.row(p.memory, id, version)
		case "modes":
			p.row(p.modes(), id, version)
		case "settings":
			p.row(p.params.all(), id, version)
		default:
			n, _ := strconv.Atoi(arg)
			for i := range n {
				p.row(strconv.Itoa(i), id, version)
			}
		}
	case "LISTEN", "UNLISTEN":
		p.listens = verb == "LISTEN"
	case "write", "defer":
		p.stepped = p.stepped || arg == stepping
		p.cl.writes++
		p.cl.ran[id]++
		p.deferred = p.deferred || verb == "defer"
	case "alter":
		p.cl.writes++
		p.cl.version++
	case "remember":
		p.memory = arg
	case "notice":
		p.say("NoticeResponse", "NOTICE", "00000", stmt)
		p.say("ParameterStatus", "TimeZone", id)
		p.say("NotificationResponse")
	case "begin":
		if p.status == wire.Idle {
			p.block.modes, p.block.queried = settings.Modes{}, false
		}
		p.status = wire.InTransaction
	case "commit", "rollback":
		if p.status == wire.Failed {
			stmt = "ROLLBACK"
		}
		p.params.end(p.status != wire.Failed && verb == "commit")
		clear(p.portals)
		p.status = wire.Idle
	case "copyin", "copyfail":
		p.say("CopyInResponse")
		if verb == "copyfail" {
			return p.error("P0001", stmt)
		}
		p.copying = stmt
		return true
	case "copyout":
		p.say("CopyOutResponse")
		p.say("CopyData", stmt)
		p.say("CopyDone")
	case "fail":
		return p.error("22012", stmt)
	default:
		return p.error("42601", stmt)
	}
	p.say("CommandComplete", stmt)
	return true
}

// prepare executes PREPARE name AS statement.
func (p *postgres) prepare(stmt string) bool {
	f := strings.SplitN(stmt, " ", 4)
	switch {
	case verb(f[3]) == "unparsable":
		return p.error("42601", f[3])
	case p.stmts[f[1]] != nil:
		return p.error("42P05", `prepared statement "`+f[1]+`" already exists`)
	}
	p.stmts[f[1]] = &prepared{f[3], "\x00\x00", p.schema()}
	p.say("CommandComplete", "PREPARE")
	return true
}

// forget executes DEALLOCATE or DISCARD ALL.
func (p *postgres) forget(verb, name string) bool {
	switch {
	case name == "ALL":
		for n := range p.stmts {
			if n != "" {
				delete(p.stmts, n)
			}
		}
		if verb == "DISCARD" {
			p.memory, p.listens, p.stepped = "", false, false
			clear(p.params.session)
			p.params.end(true)
		}
		p.say("CommandComplete", verb+" ALL")
	case p.lookup(name) == nil:
		return false
	default:
		delete(p.stmts, name)
		p.say("CommandComplete", verb)
	}
	return true
}

func (p *postgres) seen() uint64 {
	if p.replica {
		return p.shows
	}
	return p.cl.writes
}

// copyData handles what comes while data is copied in.
func (p *postgres) copyData(typ byte, body string) {
	stmt := p.copying
	switch typ {
	case wire.Sync, wire.Flush:
	case wire.CopyData:
		if body == "bad" {
			p.copying = ""
			p.error("22P04", stmt)
		}
	case wire.CopyFail:
		p.copying = ""
		p.error("57014", stmt)
	case wire.CopyDone:
		p.copying = ""
		p.cl.writes++
		p.cl.ran[strings.Fields(stmt)[2]]++
		p.say("CommandComplete", stmt)
		if !p.extended {
			p.query(p.rest)
		}
	default:
		p.copying = ""
		p.say("ErrorResponse", "ERROR", "08P01", fmt.Sprintf("unexpected message type 0x%02X during COPY from stdin", typ))
		p.say("ErrorResponse", "FATAL", "08P01", "terminating connection because protocol synchronization was lost")
		p.dead = true
	}
}

// error ends what runs and gives false.
func (p *postgres) error(code, what string, hint ...string) bool {
	p.say("ErrorResponse", append([]string{"ERROR", code, what}, hint...)...)
	p.params.failed, p.deferred = true, false
	if p.status == wire.InTransaction {
		p.status = wire.Failed
	}
	if p.extended {
		p.skipping = true
	} else {
		p.ready()
	}
	return false
}

func (p *postgres) sync() {
	if p.deferred && p.status == wire.Idle {
		p.say("ErrorResponse", "ERROR", "23503", "deferred")
		p.params.failed = true
	}
	p.ready()
}

func (p *postgres) ready() {
	if p.status == wire.Idle {
		p.params.end(!p.params.failed)
		p.deferred = false
		clear(p.portals) // they end with their transaction
	}
	p.params.failed, p.canceled = false, p.canceled && len(p.in) > 0
	p.report()
	p.out = append(p.out, message(wire.ReadyForQuery, string(p.status))...)
}

// idle reports whether another client could get the connection. What is left of
// copied data does no harm, nor does a Flush: it is ignored before the next command
// is read.
func (p *postgres) idle() bool {
	for len(p.in) > 0 {
		typ, total, err := wire.Header(p.in)
		if err != nil || total == 0 || total > len(p.in) || typ != wire.CopyData && typ != wire.CopyDone && typ != wire.CopyFail && typ != wire.Flush {
			return false
		}
		p.step()
	}
	return p.status == wire.Idle && len(p.out) == 0 && !p.skipping && p.copying == "" && !p.dead
}
