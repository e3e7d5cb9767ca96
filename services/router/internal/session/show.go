package session

import (
	"bytes"
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// textOID is the type oid of text, int8OID that of bigint (pg_type).
const (
	textOID = 25
	int8OID = 20
)

// What the router's own statements are written with, and how long they may be
// with blanks around them, in bytes.
const (
	space   = " \t\r\n"
	maxShow = 64
)

var show, lastRoute = []byte("show"), []byte("pgpilot.last_route")

// local answers the statements that are the router's own, and reports whether the
// text was one. In a failed transaction there are none: the server says so.
func (s *Session) local(text []byte) bool {
	if len(text) > maxShow || len(text) < 4 || !bytes.EqualFold(text[:4], show) || s.status == wire.Failed {
		return false
	}
	name := bytes.TrimLeft(text[4:], space)
	if len(name) == len(text)-4 || !bytes.EqualFold(bytes.TrimRight(name, space+";"), lastRoute) {
		return false
	}
	s.showLastRoute()
	return true
}

// showLastRoute answers SHOW pgpilot.last_route: where the session's last
// statement ran, and why.
func (s *Session) showLastRoute() {
	l := &s.last
	cols := []struct {
		name  string
		oid   uint32
		size  int16
		value string
	}{
		{"backend", textOID, -1, l.Backend},
		{"role", textOID, -1, l.Role},
		{"reason", textOID, -1, l.Reason},
		{"fence", textOID, -1, position(l.Fence)},
		{"replayed", textOID, -1, position(l.Replay)},
		{"waited_us", int8OID, 8, strconv.FormatInt(l.WaitedMicros, 10)},
	}
	var desc pgproto3.RowDescription
	var row pgproto3.DataRow
	for _, c := range cols {
		desc.Fields = append(desc.Fields, pgproto3.FieldDescription{Name: []byte(c.name), DataTypeOID: c.oid, DataTypeSize: c.size, TypeModifier: -1})
		v := []byte(c.value)
		if c.value == "" {
			v = nil // NULL: there is none
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
