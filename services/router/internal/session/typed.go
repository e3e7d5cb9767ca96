package session

import (
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/verdict"
)

// typed gives what is judged of a statement: its text, and with it the types of its
// parameters, as in Parse, that are not PostgreSQL's own. The server converts what is
// bound to them by their functions, wherever the statement runs.
func typed(text, types []byte) []byte {
	var list []uint32
	for b := types; len(b) >= 4; b = b[4:] {
		if t := binary.BigEndian.Uint32(b); t >= verdict.FirstUserType {
			list = append(list, t)
		}
	}
	if list == nil {
		return text
	}
	whole, _ := verdict.AppendTyped(nil, text, list)
	return whole
}

// typed gives what is judged of it.
func (s *Statement) typed() []byte { return typed(s.body[:s.text], s.body[s.text+1+2:]) }
