package bus

import (
	"bytes"
	"math"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/lsn"
)

// decodeLag reads a Lag in the form in which Encode writes it: what a router decodes
// most. Whatever is written otherwise, with spaces, escapes or fields that this build
// does not know, it leaves to encoding/json, by ok false; what it reads it reads as that
// does.
func decodeLag(data []byte, m *Lag) (ok bool) {
	c := cursor{rest: data}
	return c.object(func(key []byte) bool { return c.lagField(key, m) }) && len(c.rest) == 0
}

func (c *cursor) lagField(key []byte, m *Lag) bool {
	switch string(key) {
	case "v":
		return integer(c, &m.V)
	case "backend":
		return c.text(&m.Backend)
	case "address":
		return c.text(&m.Address)
	case "role":
		return c.role(&m.Role)
	case "healthy":
		return c.truth(&m.Healthy)
	case "error":
		return c.text(&m.Error)
	case "diverged":
		return c.truth(&m.Diverged)
	case "incarnation":
		return c.object(func(key []byte) bool { return c.incarnationField(key, &m.Incarnation) })
	case "geometry":
		return c.object(func(key []byte) bool { return c.geometryField(key, &m.Geometry) })
	case "server_version":
		return integer(c, &m.ServerVersion)
	case "replay_lsn":
		return c.position(&m.ReplayLSN)
	case "receive_lsn":
		return c.position(&m.ReceiveLSN)
	case "insert_lsn":
		return c.position(&m.InsertLSN)
	case "flush_lsn":
		return c.position(&m.FlushLSN)
	case "receiving":
		return c.truth(&m.Receiving)
	case "settings":
		return c.text(&m.Settings)
	case "lag_bytes":
		return integer(c, &m.LagBytes)
	case "lag_ms":
		return c.float(&m.LagMillis)
	case "seq":
		return c.unsigned(&m.Seq)
	case "publisher":
		return c.text(&m.Publisher)
	case "at":
		s, ok := c.quoted()
		return ok && m.At.UnmarshalText(s) == nil
	case "asked_boot_us":
		return integer(c, &m.AskedBoot)
	case "clock":
		return c.text(&m.Clock)
	}
	return false
}

func (c *cursor) incarnationField(key []byte, i *lsn.Incarnation) bool {
	switch string(key) {
	case "system_id":
		s, ok := c.quoted()
		digits := cursor{rest: s}
		return ok && digits.unsigned(&i.SystemID) && len(digits.rest) == 0
	case "timeline":
		return integer(c, &i.Timeline)
	case "postmaster_start_us":
		return integer(c, &i.Postmaster)
	case "children_start_us":
		return integer(c, &i.Children)
	}
	return false
}

func (c *cursor) geometryField(key []byte, g *lsn.Geometry) bool {
	switch string(key) {
	case "wal_block_size":
		return integer(c, &g.BlockSize)
	case "wal_segment_size":
		return integer(c, &g.SegmentSize)
	}
	return false
}

// cursor reads JSON without spaces. Its methods give false for what they do not
// take, and then nothing that they have read counts.
type cursor struct{ rest []byte }

func (c *cursor) take(b byte) bool {
	if len(c.rest) == 0 || c.rest[0] != b {
		return false
	}
	c.rest = c.rest[1:]
	return true
}

// object calls value with each key; value reads what follows. Of a key that is repeated
// the last value counts, and of objects what is in either, as encoding/json has it.
func (c *cursor) object(value func(key []byte) bool) bool {
	if !c.take('{') {
		return false
	}
	if c.take('}') {
		return true
	}
	for {
		key, ok := c.quoted()
		if !ok || !c.take(':') || !value(key) {
			return false
		}
		if c.take('}') {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
}

// quoted takes a string of printable ASCII without escapes.
func (c *cursor) quoted() ([]byte, bool) {
	if !c.take('"') {
		return nil, false
	}
	for i, b := range c.rest {
		switch {
		case b == '"':
			s := c.rest[:i]
			c.rest = c.rest[i+1:]
			return s, true
		case b < ' ' || b > '~' || b == '\\':
			return nil, false
		}
	}
	return nil, false
}

func (c *cursor) text(to *string) bool {
	s, ok := c.quoted()
	*to = string(s)
	return ok
}

func (c *cursor) role(to *Role) bool {
	s, ok := c.quoted()
	switch string(s) {
	case string(Replica):
		*to = Replica
	case string(Primary):
		*to = Primary
	default:
		*to = Role(s)
	}
	return ok
}

func (c *cursor) truth(to *bool) bool {
	for _, t := range []struct {
		word  string
		value bool
	}{{"true", true}, {"false", false}} {
		if rest, ok := bytes.CutPrefix(c.rest, []byte(t.word)); ok {
			c.rest, *to = rest, t.value
			return true
		}
	}
	return false
}

// digits takes a number without a sign, which has no zero before others.
func (c *cursor) digits() (n uint64, ok bool) {
	i := 0
	for ; i < len(c.rest) && c.rest[i] >= '0' && c.rest[i] <= '9'; i++ {
		d := uint64(c.rest[i] - '0')
		if n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	if i == 0 || i > 1 && c.rest[0] == '0' {
		return 0, false
	}
	c.rest = c.rest[i:]
	return n, true
}

// whole reports whether a number ends here, and has no fraction or exponent.
func (c *cursor) whole() bool {
	return len(c.rest) == 0 || c.rest[0] != '.' && c.rest[0] != 'e' && c.rest[0] != 'E'
}

func (c *cursor) unsigned(to *uint64) bool {
	n, ok := c.digits()
	*to = n
	return ok && c.whole()
}

// integer takes a number that fits its type.
func integer[T int | int64 | uint32 | lsn.Timeline](c *cursor, to *T) bool {
	negative := c.take('-')
	n, ok := c.digits()
	if !ok || n > math.MaxInt64 || !c.whole() {
		return false
	}
	v := int64(n)
	if negative {
		v = -v
	}
	*to = T(v)
	return int64(*to) == v
}

func (c *cursor) float(to *float64) bool {
	n := bytes.IndexAny(c.rest, ",}")
	if n < 0 {
		return false
	}
	text := c.rest[:n]
	number := cursor{rest: text}
	number.take('-')
	if _, ok := number.digits(); !ok {
		return false
	}
	if number.take('.') {
		fraction := bytes.TrimLeft(number.rest, "0123456789")
		if len(fraction) == len(number.rest) {
			return false
		}
		number.rest = fraction
	}
	v, err := strconv.ParseFloat(string(text), 64)
	c.rest, *to = c.rest[n:], v
	return err == nil && len(number.rest) == 0 // an exponent is for lag of centuries
}

func (c *cursor) position(to *lsn.LSN) bool {
	s, ok := c.quoted()
	if !ok {
		return false
	}
	high, low, ok := bytes.Cut(s, []byte("/"))
	h, hok := hexadecimal(high)
	l, lok := hexadecimal(low)
	*to = lsn.LSN(h<<32 | l)
	return ok && hok && lok
}

func hexadecimal(s []byte) (n uint64, ok bool) {
	for _, b := range s {
		switch {
		case b >= '0' && b <= '9':
			n = n<<4 | uint64(b-'0')
		case b >= 'A' && b <= 'F':
			n = n<<4 | uint64(b-'A'+10)
		default:
			return 0, false
		}
	}
	return n, len(s) >= 1 && len(s) <= 8
}
