package session

import (
	"encoding/binary"
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/lsn"
	"github.com/pgpilot/pgpilot/services/router/internal/override"
)

// Type oids (pg_type).
const (
	boolOID = 16
	int8OID = 20
	textOID = 25
)

// binaryFormat is the format code of values that are not text ("Message Formats:
// Bind").
const binaryFormat = 1

// column is one of the single row that a SHOW of the router's gives.
type column struct {
	name  string
	oid   uint32
	value string // as text; empty: NULL, there is none
}

// shows gives what SHOW answers for one of the router's parameters.
func (s *Session) shows(name string) []column {
	switch name {
	case override.LastRouteName:
		return s.showsLastRoute()
	case override.SessionName:
		return s.showsSession()
	}
	if name == override.FenceName {
		return []column{{name, textOID, s.env.Token(s, s.fence.Position())}}
	}
	v := s.values()
	return []column{{name, textOID, v.Show(name)}}
}

// showsLastRoute: where the session's last statement ran, and why.
func (s *Session) showsLastRoute() []column {
	l := &s.last
	return []column{
		{"backend", textOID, l.Backend},
		{"role", textOID, l.Role},
		{"reason", textOID, l.Reason},
		{"fence", textOID, position(l.Fence)},
		{"replayed", textOID, position(l.Replay)},
		{"waited_us", int8OID, strconv.FormatInt(l.WaitedMicros, 10)},
	}
}

// showsSession: what the router keeps for the session.
func (s *Session) showsSession() []column {
	named := len(s.named)
	if s.unnamed != nil {
		named++
	}
	return []column{
		{"session", textOID, s.rec.Session},
		{"pinned", textOID, s.pins.String()},
		{"settings", int8OID, strconv.Itoa(len(s.set.List().Settings()))},
		{"statements", int8OID, strconv.Itoa(named)},
		{"fence", textOID, position(s.fence.Position())},
		{"unsettled", boolOID, strconv.FormatBool(s.fence.Dirty())[:1]},
	}
}

// describeShow adds the RowDescription of a SHOW, with the columns' formats.
func (s *Session) describeShow(name string, formats []int16) {
	var desc pgproto3.RowDescription
	for i, c := range s.shows(name) {
		size := map[uint32]int16{boolOID: 1, int8OID: 8, textOID: -1}[c.oid]
		desc.Fields = append(desc.Fields, pgproto3.FieldDescription{
			Name: []byte(c.name), DataTypeOID: c.oid, DataTypeSize: size, TypeModifier: -1, Format: formatOf(formats, i),
		})
	}
	s.encode(&desc)
}

// rowOfShow adds its row.
func (s *Session) rowOfShow(name string, formats []int16) {
	var row pgproto3.DataRow
	for i, c := range s.shows(name) {
		row.Values = append(row.Values, c.encode(formatOf(formats, i)))
	}
	s.encode(&row)
}

// formatOf gives the format of a column: one that is given counts for all.
func formatOf(formats []int16, i int) int16 {
	switch len(formats) {
	case 0:
		return 0
	case 1:
		return formats[0]
	}
	if i >= len(formats) { // bound where there were fewer columns
		return 0
	}
	return formats[i]
}

// encode gives the value as it is sent; nil for NULL.
func (c *column) encode(format int16) []byte {
	switch {
	case c.value == "":
		return nil
	case format != binaryFormat || c.oid == textOID:
		return []byte(c.value)
	case c.oid == boolOID:
		return []byte{map[string]byte{"t": 1}[c.value]}
	}
	n, _ := strconv.ParseInt(c.value, 10, 64) // written by shows
	return binary.BigEndian.AppendUint64(nil, uint64(n))
}

// position writes a position as timeline@LSN, and none as nothing.
func position(p lsn.Position) string {
	if p.IsZero() {
		return ""
	}
	return strconv.FormatUint(uint64(p.Timeline), 10) + "@" + p.LSN.String()
}
