package verdict

import (
	"strconv"
	"strings"
)

// A Parse may name the types of its parameters by their numbers ("Message Formats"),
// and what a client sends for one is converted by that type's functions: those of a
// domain run its checks. So the types belong to what is judged. They are put behind the
// text as a statement of its own, with names that only the classifier understands.

// FirstUserType is the least number of a type that is not PostgreSQL's own
// (FirstUnpinnedObjectId in PostgreSQL's transam.h).
const FirstUserType = 12000

// typePrefix begins the name, in pg_catalog, of a type by its number.
const typePrefix = "oid "

// AppendTyped appends what is judged in the place of a text whose parameters are of
// such types, and reports whether that is another text: where all are PostgreSQL's own
// or left to the server, nothing is appended.
func AppendTyped(b, text []byte, types []uint32) (_ []byte, another bool) {
	for _, t := range types {
		if t < FirstUserType {
			continue
		}
		if !another {
			another = true
			b = append(b, text...)
			b = append(b, "\n;SELECT"...)
		} else {
			b = append(b, ',')
		}
		b = append(b, ` NULL::pg_catalog."`+typePrefix...)
		b = strconv.AppendUint(b, uint64(t), 10)
		b = append(b, '"')
	}
	return b, another
}

// TypeNumber gives the number in a name of pg_catalog that AppendTyped has made.
func TypeNumber(name string) (n uint32, ok bool) {
	digits, ok := strings.CutPrefix(name, typePrefix)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 10, 32)
	return uint32(v), err == nil
}
