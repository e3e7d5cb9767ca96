package load

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// answer is what is known of the answer to one request.
type answer struct {
	ready  int // ReadyForQuery that are still to come
	checks bool
	seen   bool // the row to check
	want   int64
	stale  bool
	err    error // the first ErrorResponse
	lost   error // why the rest cannot be read
}

// read takes the whole messages at the start of b and gives how many bytes they are.
// It stops behind the last ReadyForQuery that is expected.
func (a *answer) read(b []byte) int {
	used := 0
	for a.ready > 0 {
		typ, total, err := wire.Header(b[used:])
		if err != nil {
			a.lost = err
			return used
		}
		if total == 0 || len(b)-used < total {
			return used
		}
		message := b[used : used+total]
		used += total
		switch typ {
		case wire.ReadyForQuery:
			a.ready--
		case wire.DataRow:
			if a.checks && !a.seen {
				a.seen = true
				a.stale = a.older(message)
			}
		case wire.ErrorResponse:
			if a.err == nil {
				a.err = serverError(message)
			}
		}
	}
	return used
}

// older says whether the row's first column is less than what was written.
func (a *answer) older(row []byte) bool {
	const columns, size = wire.HeaderSize, wire.HeaderSize + 2
	if len(row) < size+4 || binary.BigEndian.Uint16(row[columns:]) == 0 {
		a.err = fmt.Errorf("the row that was written came back without a value")
		return false
	}
	n := int(int32(binary.BigEndian.Uint32(row[size:])))
	if n < 0 || len(row) < size+4+n {
		a.err = fmt.Errorf("the row that was written came back as NULL")
		return false
	}
	got, err := strconv.ParseInt(string(row[size+4:size+4+n]), 10, 64)
	if err != nil {
		a.err = fmt.Errorf("read the value that was written: %w", err)
		return false
	}
	return got < a.want
}

func serverError(message []byte) error {
	var e pgproto3.ErrorResponse
	if err := e.Decode(message[wire.HeaderSize:]); err != nil {
		return fmt.Errorf("read an error of the server: %w", err)
	}
	return describe(&e)
}

func describe(e *pgproto3.ErrorResponse) error {
	return fmt.Errorf("%s: %s (%s)", e.Severity, e.Message, e.Code)
}
