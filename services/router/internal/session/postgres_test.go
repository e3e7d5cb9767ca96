package session_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// cluster is what the servers of a model share: how many writes the primary has
// executed, how many of them each server shows, and how often each write ran.
type cluster struct {
	writes uint64
	ran    map[string]int
}

// postgres is a model of one server process: the message flow of PostgreSQL
// (documentation, "Message Flow"), with statements of a few words. A statement
// is a verb, an argument and an id, which its answers carry:
//
//	rows N, write, value (what writes it sees), begin, commit, rollback, fail,
//	remember X / recall (state of the session), copyin, copyfail (fails before it
//	reads data), copyout N, notice, defer (fails at commit)
type postgres struct {
	cl      *cluster
	replica bool
	// shows is how many writes it has replayed; the primary shows all.
	shows uint64

	in, out  []byte
	status   byte
	skipping bool     // until Sync, after an error in an extended sequence
	extended bool     // the last message was of the extended protocol
	copying  string   // the statement that copies in
	rest     []string // of the string that it is in
	parsed   string
	deferred bool
	memory   string
	dead     bool // it has ended its process

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
		stmts := strings.Split(strings.TrimSuffix(body, "\x00"), ";")
		if strings.TrimSpace(strings.Join(stmts, "")) == "" {
			p.say("EmptyQueryResponse")
		}
		p.query(stmts)
	case wire.FunctionCall:
		p.say("FunctionCallResponse")
		p.ready()
	case wire.Parse:
		p.parsed = strings.Trim(body, "\x00")
		if strings.HasPrefix(p.parsed, "unparsable") {
			p.error("42601", p.parsed)
			return
		}
		p.say("ParseComplete")
	case wire.Bind:
		p.say("BindComplete")
	case wire.Describe:
		p.say("ParameterDescription")
		if strings.HasPrefix(p.parsed, "rows") {
			p.say("RowDescription")
		} else {
			p.say("NoData")
		}
	case wire.Execute:
		p.execute(p.parsed, false)
	case wire.Close:
		p.say("CloseComplete")
	}
}

func (p *postgres) query(stmts []string) {
	for i, s := range stmts {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if !p.execute(s, true) {
			return // with an error, which sends ReadyForQuery
		}
		if p.copying != "" {
			p.rest = stmts[i+1:]
			return
		}
	}
	p.ready()
}

// execute runs one statement and reports whether it has not failed.
func (p *postgres) execute(stmt string, simple bool) bool {
	f := append(strings.Fields(stmt), "", "", "")
	verb, arg, id := f[0], f[1], f[2]
	if p.status == wire.Failed && verb != "commit" && verb != "rollback" {
		return p.error("25P02", stmt)
	}
	if p.replica && verb != "rows" && verb != "value" && verb != "recall" && verb != "copyout" && verb != "fail" {
		panic(promise("a replica was sent " + stmt))
	}
	switch verb {
	case "rows", "value", "recall":
		if simple {
			p.say("RowDescription")
		}
		switch verb {
		case "value":
			p.say("DataRow", strconv.FormatUint(p.seen(), 10), id)
		case "recall":
			p.say("DataRow", p.memory, id)
		default:
			n, _ := strconv.Atoi(arg)
			for i := range n {
				p.say("DataRow", strconv.Itoa(i), id)
			}
			if n == 3 && !simple {
				p.say("PortalSuspended")
				return true
			}
		}
	case "write", "defer":
		p.cl.writes++
		p.cl.ran[id]++
		p.deferred = p.deferred || verb == "defer"
	case "remember":
		p.memory = arg
	case "notice":
		p.say("NoticeResponse", "NOTICE", "00000", stmt)
		p.say("ParameterStatus", "TimeZone", id)
		p.say("NotificationResponse")
	case "begin":
		p.status = wire.InTransaction
	case "commit", "rollback":
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
	default:
		return p.error("42601", stmt)
	}
	p.say("CommandComplete", stmt)
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
func (p *postgres) error(code, what string) bool {
	p.say("ErrorResponse", "ERROR", code, what)
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
	}
	p.ready()
}

func (p *postgres) ready() {
	if p.status == wire.Idle {
		p.deferred = false
	}
	p.out = append(p.out, message(wire.ReadyForQuery, string(p.status))...)
}

// idle reports whether another client could get the connection. What is left of
// copied data does no harm: it is ignored before the next command is read.
func (p *postgres) idle() bool {
	for len(p.in) > 0 {
		typ, total, err := wire.Header(p.in)
		if err != nil || total == 0 || total > len(p.in) || typ != wire.CopyData && typ != wire.CopyDone && typ != wire.CopyFail {
			return false
		}
		p.step()
	}
	return p.status == wire.Idle && len(p.out) == 0 && !p.skipping && p.copying == "" && !p.dead
}
