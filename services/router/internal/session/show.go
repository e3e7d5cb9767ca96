package session

import (
	"bytes"
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// Type oids (pg_type).
const (
	boolOID = 16
	int8OID = 20
	textOID = 25
)

// What the router's own statements are written with, and how long they may be
// with blanks around them, in bytes.
const (
	space   = " \t\r\n"
	maxShow = 64
)

var (
	show      = []byte("show")
	lastRoute = []byte("pgpilot.last_route")
	ofSession = []byte("pgpilot.session")
)

// local answers the statements that are the router's own, and reports whether the
// text was one. In a failed transaction there are none: the server says so.
func (s *Session) local(text []byte) bool {
	text = bytes.TrimLeft(text, space)
	if len(text) > maxShow || len(text) < 4 || !bytes.EqualFold(text[:4], show) || s.status == wire.Failed {
		return false
	}
	name := bytes.TrimLeft(text[4:], space)
	if len(name) == len(text)-4 {
		return false
	}
	switch name = bytes.TrimRight(name, space+";"); {
	case bytes.EqualFold(name, lastRoute):
		s.showLastRoute()
	case bytes.EqualFold(name, ofSession):
		s.showSession()
	default:
		return false
	}
	return true
}

// column is one of the single row that a SHOW of the router's gives.
type column struct {
	name  string
	oid   uint32
	size  int16
	value string // empty: NULL, there is none
}

// showLastRoute answers SHOW pgpilot.last_route: where the session's last
// statement ran, and why.
func (s *Session) showLastRoute() {
	l := &s.last
	s.showRow(
		column{"backend", textOID, -1, l.Backend},
		column{"role", textOID, -1, l.Role},
		column{"reason", textOID, -1, l.Reason},
		column{"fence", textOID, -1, position(l.Fence)},
		column{"replayed", textOID, -1, position(l.Replay)},
		column{"waited_us", int8OID, 8, strconv.FormatInt(l.WaitedMicros, 10)},
	)
}

// showSession answers SHOW pgpilot.session: what the router keeps for it.
func (s *Session) showSession() {
	named := len(s.named)
	if s.unnamed != nil {
		named++
	}
	s.showRow(
		column{"session", textOID, -1, s.rec.Session},
		column{"pinned", textOID, -1, s.pins.String()},
		column{"settings", int8OID, 8, strconv.Itoa(len(s.set.List().Settings()))},
		column{"statements", int8OID, 8, strconv.Itoa(named)},
		column{"fence", textOID, -1, position(s.fence.Position())},
		column{"unsettled", boolOID, 1, strconv.FormatBool(s.fence.Dirty())[:1]},
	)
}

// showRow answers a simple query with one row.
func (s *Session) showRow(cols ...column) {
	var desc pgproto3.RowDescription
	var row pgproto3.DataRow
	for _, c := range cols {
		desc.Fields = append(desc.Fields, pgproto3.FieldDescription{Name: []byte(c.name), DataTypeOID: c.oid, DataTypeSize: c.size, TypeModifier: -1})
		v := []byte(c.value)
		if c.value == "" {
			v = nil
		}
		row.Values = append(row.Values, v)
	}
	from := len(s.scratch)
	s.encode(&desc)
	s.encode(&row)
	s.encode(&pgproto3.CommandComplete{CommandTag: []byte("SHOW")})
	s.scratch = wire.AppendReadyForQuery(s.scratch, s.status)
	s.toClient(from)
}

// position writes a position as timeline@LSN, and none as nothing.
func position(p lsn.Position) string {
	if p.IsZero() {
		return ""
	}
	return strconv.FormatUint(uint64(p.Timeline), 10) + "@" + p.LSN.String()
}
