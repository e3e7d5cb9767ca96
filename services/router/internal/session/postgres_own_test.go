package session_test

import (
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// The router's parameter pgpilot.freshness, as a server would have it.

const neverHint = `Give a time of at most a day, such as "250ms", "5s" or "1min", in milliseconds if it has no unit; "0" stands for the configured limit.`

func isOwn(text string) bool { return strings.Contains(text, "pgpilot.") }

// hidesOwn checks that no server behind a router is sent a statement about one of the
// router's parameters.
func (p *postgres) hidesOwn(text string) {
	if isOwn(text) && !p.direct {
		broken("a server was sent %s", text)
	}
}

// mixesOwn refuses a string with one among other statements where the router does: a
// value that is not allowed is an error of the whole string.
func (p *postgres) mixesOwn(text string) bool {
	if _, own := settings.Part([]byte(text)); own != nil {
		switch {
		case p.status == wire.Failed && !settings.BeginsWithEnd([]byte(text)):
			return !p.error("25P02", abortedMessage)
		case strings.Contains(text, " TO never"):
			return !p.error("22023", `invalid value for parameter "pgpilot.freshness": "never"`, neverHint)
		}
		return false
	}
	if os, _ := settings.ParseOwn([]byte(text)); len(os) == 1 && os[0].Local && p.status == wire.Idle {
		p.say("NoticeResponse", "WARNING", "25P01", "SET LOCAL can only be used in transaction blocks")
	}
	return false
}

func (p *postgres) describeOwn(binary bool) {
	d := pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("pgpilot.freshness"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}}}
	if binary {
		d.Fields[0].Format = 1
	}
	b, err := d.Encode(nil)
	if err != nil {
		panic(err)
	}
	p.out = append(p.out, b...)
}

// showPortal executes a portal of a SHOW, which gives its row once.
func (p *postgres) showPortal(o *portal, limit int) {
	p.rowOfShow(!o.done)
	if !o.done && limit == 1 {
		p.say("PortalSuspended")
	} else {
		p.say("CommandComplete", "SHOW")
	}
	o.done = true
}

func (p *postgres) showOwn(simple bool) bool {
	if simple {
		p.describeOwn(false)
	}
	p.rowOfShow(true)
	p.say("CommandComplete", "SHOW")
	return true
}

func (p *postgres) rowOfShow(is bool) {
	v := p.params.value("pgpilot.freshness")
	if v == unset {
		v = "0"
	}
	if is {
		p.say("DataRow", strings.Trim(v, "'"))
	}
}
