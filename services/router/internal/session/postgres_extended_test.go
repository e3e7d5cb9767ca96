package session_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgpilot/pgpilot/libs/wire"
)

func (p *postgres) parse(body string) {
	name, rest, _ := strings.Cut(body, "\x00")
	text, types, _ := strings.Cut(rest, "\x00")
	if name == "" {
		delete(p.stmts, "")
	}
	switch {
	case verb(text) == "unparsable":
		p.error("42601", text)
	case p.aborted(text):
		p.error("25P02", abortedMessage)
	case p.stmts[name] != nil:
		p.error("42P05", `prepared statement "`+name+`" already exists`)
	default:
		p.hidesOwn(text)
		p.stmts[name] = &prepared{text, types, p.schema()}
		p.say("ParseComplete")
	}
}

func (p *postgres) lookup(name string) *prepared {
	st := p.stmts[name]
	switch {
	case st != nil:
	case name == "":
		p.error("26000", "unnamed prepared statement does not exist")
	default:
		p.error("26000", `prepared statement "`+name+`" does not exist`)
	}
	return st
}

func (p *postgres) bind(body string) {
	name, rest, _ := strings.Cut(body, "\x00")
	stmt, rest, _ := strings.Cut(rest, "\x00")
	st := p.lookup(stmt)
	switch {
	case st == nil:
	case p.aborted(st.text):
		p.error("25P02", abortedMessage)
	case returnsRows(st.text) && verb(st.text) != "SHOW" && st.version != p.schema():
		p.error("0A000", "cached plan must not change result type", "file=plancache.c", "routine=RevalidateCachedQuery")
	case name != "" && p.portals[name] != nil:
		p.error("42P03", `cursor "`+name+`" already exists`)
	default:
		p.portals[name] = &portal{st: st, binary: rest == "\x00\x00\x00\x00\x00\x01\x00\x01"}
		p.say("BindComplete")
	}
}

func returnsRows(text string) bool {
	v := verb(text)
	return v == "rows" || v == "value" || v == "standby" || v == "recall" || v == "settings" || v == "SHOW" || v == "modes"
}

func (p *postgres) describe(kind byte, name string) {
	var st *prepared
	binary := false
	if kind == 'S' {
		st = p.lookup(name)
	} else if o := p.portals[name]; o != nil {
		st, binary = o.st, o.binary
	} else {
		p.error("34000", `portal "`+name+`" does not exist`)
	}
	if st == nil {
		return
	}
	// PostgreSQL describes what returns no rows in a failed transaction too. The router
	// does so only where the connection holds it, since nothing can be parsed then: the
	// one difference that this model leaves out.
	if p.aborted(st.text) && (returnsRows(st.text) || kind == 'S' && verb(st.text) != "DEALLOCATE" && !isOwn(st.text)) {
		p.error("25P02", abortedMessage)
		return
	}
	if kind == 'S' {
		p.out = append(p.out, message(wire.ParameterDescription, st.types)...)
	}
	if verb(st.text) == "SHOW" {
		p.describeOwn(binary)
	} else if returnsRows(st.text) {
		p.describeRows(st.text, st.version)
	} else {
		p.say("NoData")
	}
}

func (p *postgres) describeRows(text string, version int) {
	p.say("RowDescription", fmt.Sprintf("%s v%d", append(strings.Fields(text), "", "", "")[2], version))
}

// schema is the version of the tables that it sees.
func (p *postgres) schema() int {
	if p.replica {
		return p.version
	}
	return p.cl.version
}

// run executes a portal.
func (p *postgres) run(name string, limit int) {
	o := p.portals[name]
	switch {
	case o == nil:
		p.error("34000", `portal "`+name+`" does not exist`)
	case p.aborted(o.st.text):
		p.error("25P02", abortedMessage)
	case verb(o.st.text) == "SHOW":
		p.showPortal(o, limit)
	case verb(o.st.text) == "rows" && limit > 0:
		f := append(strings.Fields(o.st.text), "", "")
		n, _ := strconv.Atoi(f[1])
		for range limit {
			if o.sent == n {
				break
			}
			p.row(strconv.Itoa(o.sent), f[2], o.st.version)
			o.sent++
		}
		if o.sent < n {
			p.say("PortalSuspended")
			return
		}
		p.say("CommandComplete", o.st.text)
	case o.done && verb(o.st.text) != "rows":
		p.error("55000", `portal "`+name+`" cannot be run`)
	default:
		o.done = true
		p.execute(o.st.text, o.st)
	}
}

// row sends a row, which says by which description it is to be read.
func (p *postgres) row(value, id string, version int) {
	p.say("DataRow", value, id, fmt.Sprintf("v%d", version))
}
