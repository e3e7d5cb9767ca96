package wire

import "encoding/binary"

// AppendReadyForQuery appends a ReadyForQuery with the given transaction status.
func AppendReadyForQuery(dst []byte, status byte) []byte {
	return append(dst, ReadyForQuery, 0, 0, 0, 5, status)
}

// AppendQuery appends a Query message.
func AppendQuery(dst []byte, sql string) []byte {
	dst = append(dst, Query)
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(sql)+1))
	dst = append(dst, sql...)
	return append(dst, 0)
}
