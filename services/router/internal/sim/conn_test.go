package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/session"
)

// conn is one connection to a server, with the model of its backend: simple queries
// of a few statements.
//
//	R key          reads
//	W key value    writes, and waits for the disk
//	A key value    writes, and does not wait (synchronous_commit = off)
//	C key value    a procedure that commits a write and then fails
//	BEGIN, COMMIT, ROLLBACK
//
// In the extended protocol it takes BEGIN, and SELECT without anything to select.
type conn struct {
	srv *server
	// run is the tracker's number of the incarnation that the connection belongs to.
	run  uint32
	dead bool
	// in is what the server has not looked at yet, out what has not arrived at the
	// router.
	in, out []byte
	waiting bool // for the disk
	// status is the transaction's. Of one that has written, the record comes with its
	// COMMIT.
	status byte
	writes *record
	async  bool
	// parsed is the unnamed statement.
	parsed string
	// saw is what the last read showed, of a replica.
	saw []record

	owner      *client
	slot       session.Slot
	statements session.Statements
}

func (s *server) connect() *conn {
	c := &conn{srv: s, status: wire.Idle}
	s.conns = append(s.conns, c)
	return c
}

// head gives the message at the head of what the server has to do, if it is there, and
// its text if it is a query.
func (c *conn) head() (typ byte, text string, total int, ok bool) {
	if len(c.in) == 0 {
		return 0, "", 0, false
	}
	typ, total, err := wire.Header(c.in)
	if err != nil {
		broken("a server is sent nonsense: %v", err)
	}
	if total == 0 || total > len(c.in) {
		return 0, "", 0, false
	}
	b, _ := wire.QueryText(c.in[:total])
	return typ, string(b), total, true
}

// runs reports whether the backend can make a step.
func (c *conn) runs() bool {
	if c.dead || c.waiting {
		return false
	}
	typ, text, _, ok := c.head()
	if !ok || typ != wire.Query {
		return ok
	}
	f := strings.Fields(text)
	switch f[0] {
	case "W", "A", "C":
		by := c.srv.locks[number(f[1])]
		return !c.srv.primary || by == nil || by == c
	}
	return true
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err) // the simulation writes them itself
	}
	return n
}

// step executes the message at the head.
func (c *conn) step() {
	typ, text, total, _ := c.head()
	if typ != wire.Query {
		c.extended(typ, c.in[wire.HeaderSize:total])
		c.in = c.in[total:]
		return
	}
	c.in = c.in[total:]
	f := strings.Fields(text)
	switch f[0] {
	case "R":
		c.saw = c.srv.log[:c.srv.visible]
		c.row(c.srv.state[number(f[1])])
		c.complete("SELECT 1")
	case "BEGIN":
		c.status = wire.InTransaction
		c.complete("BEGIN")
	case "ROLLBACK":
		c.unlock()
		c.writes, c.status = nil, wire.Idle
		c.complete("ROLLBACK")
	case "COMMIT":
		c.status = wire.Idle
		if c.writes == nil {
			c.complete("COMMIT")
			return
		}
		r := *c.writes
		c.writes = nil
		c.commit(r, c.async, func() { c.complete("COMMIT") })
	case "W", "A", "C":
		c.write(f[0], int32(number(f[1])), number(f[2]))
	default:
		broken("a server is sent %q", text)
	}
}

// extended executes a message of the extended protocol.
func (c *conn) extended(typ byte, body []byte) {
	switch typ {
	case wire.Parse:
		c.parsed = strings.Trim(string(body), "\x00")
		c.out = append(c.out, must(&pgproto3.ParseComplete{})...)
	case wire.Bind:
		c.out = append(c.out, must(&pgproto3.BindComplete{})...)
	case wire.Execute:
		switch {
		case strings.HasPrefix(c.parsed, "BEGIN"):
			c.status = wire.InTransaction
			c.out = append(c.out, must(&pgproto3.CommandComplete{CommandTag: []byte("BEGIN")})...)
		case c.parsed == "SELECT":
			c.out = append(c.out, must(&pgproto3.DataRow{})...)
			c.out = append(c.out, must(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})...)
		default:
			broken("a server is sent %q with the extended protocol", c.parsed)
		}
	default:
		broken("a server is sent a message of type %q", typ)
	}
}

func (c *conn) write(how string, key int32, value int64) {
	if !c.srv.primary {
		c.fail("25006", "cannot execute UPDATE in a read-only transaction")
		return
	}
	c.srv.locks[key] = c
	r := record{commit: true, key: key, value: value, version: c.srv.state[key].version + 1}
	if c.status == wire.InTransaction {
		c.writes, c.async = &r, how == "A"
		c.row(cell{value, r.version})
		c.complete("UPDATE 1")
		return
	}
	c.commit(r, how == "A", func() {
		if how == "C" {
			c.fail("KV001", "as agreed")
			return
		}
		c.row(cell{value, r.version})
		c.complete("UPDATE 1")
	})
}

// commit writes the record. The client is told when it is on disk, unless it does
// not want to wait.
func (c *conn) commit(r record, async bool, tell func()) {
	s := c.srv
	if !s.primary { // a COMMIT on a server that is one no more
		c.fail("25006", "cannot execute COMMIT during recovery")
		return
	}
	r = s.write(r)
	if async {
		s.show(r)
		c.unlock()
		tell()
		return
	}
	c.waiting = true
	s.pending = append(s.pending, &commit{at: len(s.log) - 1, from: c, rec: r, slow: s.w.slow(), tell: func() {
		c.waiting = false
		if !c.dead {
			tell()
		}
	}})
}

// unlock gives back the keys that the transaction holds.
func (c *conn) unlock() {
	for k, by := range c.srv.locks {
		if by == c {
			c.srv.locks[k] = nil
		}
	}
}

// close ends the connection from the router's side.
func (c *conn) close() {
	if c.dead {
		return
	}
	c.dead = true
	if !c.waiting { // a commit on its way to the disk goes on
		c.unlock()
	}
}

// description is that of every row.
var description = must(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{
	{Name: []byte("value"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1},
}})

func must(m pgproto3.BackendMessage) []byte {
	b, err := m.Encode(nil)
	if err != nil {
		panic(err)
	}
	return b
}

func (c *conn) row(v cell) {
	c.out = append(c.out, description...)
	text := fmt.Sprintf("%d %d %d %d", v.value, v.version, c.srv.id, c.srv.run)
	c.out = append(c.out, must(&pgproto3.DataRow{Values: [][]byte{[]byte(text)}})...)
}

func (c *conn) complete(tag string) {
	c.out = append(c.out, must(&pgproto3.CommandComplete{CommandTag: []byte(tag)})...)
	c.out = wire.AppendReadyForQuery(c.out, c.status)
}

func (c *conn) fail(code, message string) {
	if c.status == wire.InTransaction {
		c.status = wire.Failed
	}
	c.out = append(c.out, must(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: message})...)
	c.out = wire.AppendReadyForQuery(c.out, c.status)
}
