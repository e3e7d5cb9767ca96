package session

import (
	"bytes"
	"encoding/binary"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// What is taken out of messages of the extended protocol, and how they are made ("Message Formats").

// splitParse takes a whole Parse apart ("Message Formats"). types are those of the
// parameters that it gives, four bytes each.
func splitParse(msg []byte) (name, text, types []byte, ok bool) {
	name, rest, ok := cutString(msg[wire.HeaderSize:])
	if !ok {
		return nil, nil, nil, false
	}
	text, types, ok = cutString(rest)
	if !ok || len(types) < 2 || len(types) != 2+4*(int(types[0])<<8|int(types[1])) {
		return nil, nil, nil, false
	}
	return name, text, types[2:], true
}

// splitBind takes the names off a Bind, of which the end may be missing.
func splitBind(msg []byte) (portal, statement, rest []byte, ok bool) {
	portal, rest, ok = cutString(msg[wire.HeaderSize:])
	if !ok {
		return nil, nil, nil, false
	}
	statement, rest, ok = cutString(rest)
	return portal, statement, rest, ok
}

// splitTarget takes a whole Describe or Close apart: 'S' and a statement's name,
// or 'P' and a portal's.
func splitTarget(msg []byte) (kind byte, name []byte, ok bool) {
	if len(msg) < wire.HeaderSize+2 {
		return 0, nil, false
	}
	name, ok = wire.CString(msg[wire.HeaderSize+1:])
	return msg[wire.HeaderSize], name, ok
}

func cutString(b []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}

// appendParse adds a Parse of a statement's body under a name.
func appendParse(b []byte, name string, body []byte) []byte {
	b = append(b, wire.Parse)
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(name)+1+len(body)))
	b = append(append(b, name...), 0)
	return append(b, body...)
}

func appendTarget(b []byte, typ byte, name string) []byte {
	b = append(b, typ)
	b = binary.BigEndian.AppendUint32(b, uint32(4+1+len(name)+1))
	b = append(b, 'S')
	return append(append(b, name...), 0)
}
