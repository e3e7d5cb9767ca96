package session

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/libs/wire"
)

// textOID is the type oid of text, int8OID that of bigint (pg_type).
const (
	textOID = 25
	int8OID = 20
)

// local answers the statements that are the router's own, and reports whether the
// text was one. In a failed transaction there are none: the server says so.
func (s *Session) local(text []byte) bool {
	if len(text) > 64 || len(text) < 4 || text[0]|0x20 != 's' || s.status == wire.Failed {
		return false
	}
	words := bytes.Fields(bytes.TrimRight(text, "; \t\r\n"))
	if len(words) != 2 || !bytes.EqualFold(words[0], []byte("show")) || !strings.EqualFold(string(words[1]), "pgpilot.last_route") {
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
