package session_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// writer makes up what a client sends.
type writer struct {
	r   *rand.Rand
	ids int
	// simple leaves the extended protocol out.
	simple bool
	// whole says that data which is copied in has no Sync in it, and an end: what has become of
	// it would not be known otherwise where a connection is lost.
	whole bool
	// once says that the unnamed statement may be one that runs only once.
	once bool
	out  []byte
}

func (c *writer) send(kind string, args ...string) {
	for i := range args {
		args[i] = `"` + args[i]
	}
	b, err := encode(clientKinds, append([]string{kind}, args...))
	if err != nil {
		panic(err)
	}
	c.out = append(c.out, b...)
}

func (c *writer) statement() string {
	c.ids++
	verbs := []string{
		"rows 1", "rows 2", "rows 3", "rows 40", "value 0", "value 0", "recall 0", "write 0", "write 0", "begin 0", "commit 0",
		"rollback 0", "fail w", "fail r", "copyout 1", "notice 0", "remember", "",
		"settings 0", "settings 0", "standby 0", "set", "set", "set", "block", "block", "block", "modes 0",
	}
	v := verbs[c.r.IntN(len(verbs))]
	switch v {
	case "":
		return " "
	case "set":
		return c.setting()
	case "block":
		return c.block()
	case "remember":
		if c.r.IntN(3) > 0 {
			return fmt.Sprintf("rows 1 i%04d", c.ids) // it pins the session: not too often
		}
		return fmt.Sprintf("remember m%d i%04d", c.ids, c.ids)
	}
	return fmt.Sprintf("%s i%04d", v, c.ids)
}

// block writes a statement about a transaction block.
func (c *writer) block() string {
	of := []string{
		"BEGIN", "BEGIN", " BEGIN  WORK", "START TRANSACTION", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN READ WRITE /* all of it */", "START TRANSACTION READ ONLY, DEFERRABLE",
		"COMMIT", "COMMIT", "END", "ROLLBACK", "ROLLBACK", "ABORT", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT AND NO CHAIN",
		"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET TRANSACTION READ ONLY", "BEGIN READ",
	}
	return of[c.r.IntN(len(of))]
}

// setting writes a statement about settings.
func (c *writer) setting() string {
	any := func(of ...string) string { return of[c.r.IntN(len(of))] }
	name := func() string { return any("a", "b", "tz", "rare") }
	switch c.r.IntN(13) {
	case 12:
		return c.own()
	case 9, 10, 11:
		return fmt.Sprintf("SELECT set_config('%s',%s,%s)", name(), any("'v0'", "'v1'", "NULL"), any("true", "false", "false"))
	case 0, 1, 2:
		return fmt.Sprintf("SET %s TO v%d", name(), c.r.IntN(3))
	case 3:
		return fmt.Sprintf("SET LOCAL %s TO l%d", name(), c.r.IntN(3))
	case 4:
		return "RESET " + name()
	case 5:
		return "RESET ALL"
	}
	return any("SAVEPOINT", "RELEASE", "ROLLBACK TO") + " " + any("s", "t")
}

// own writes a statement about a parameter of the router's.
func (c *writer) own() string {
	return []string{
		"SHOW pgpilot.freshness", "SHOW pgpilot.freshness", "SET pgpilot.freshness TO '1ms'", "SET pgpilot.freshness TO '2ms'",
		"SET LOCAL pgpilot.freshness TO '3ms'", "RESET pgpilot.freshness", "SET pgpilot.freshness TO never",
	}[c.r.IntN(7)]
}

// blind writes a statement that is sent where nobody looks into it: none of the
// router's own.
func (c *writer) blind() string {
	for {
		if s := c.statement(); !isOwn(s) {
			return s
		}
	}
}

// group writes one request, or one sequence of the extended protocol.
func (c *writer) group() {
	kinds := 20
	if c.simple {
		kinds = 10
	}
	switch n := c.r.IntN(kinds); {
	case n < 6:
		c.send("Query", c.statement())
	case n < 7:
		all := []string{c.statement(), c.statement(), c.statement()}
		for c.r.IntN(3) == 0 {
			all[c.r.IntN(3)] = c.own()
		}
		c.send("Query", strings.Join(all, ";"))
	case n < 8: // longer than what is judged
		c.send("Query", c.blind()+strings.Repeat(" ", 1500))
	case n < 10:
		c.ids++
		text := fmt.Sprintf("copyin 0 i%04d", c.ids)
		if c.r.IntN(6) == 0 {
			text = fmt.Sprintf("copyfail 0 i%04d", c.ids)
		}
		if c.r.IntN(3) == 0 {
			text += ";" + c.statement()
		}
		c.send("Query", text)
		c.data()
	case n < 12:
		c.sequence()
	case n < 14:
		c.sql()
	case n < 15:
		c.readOnly()
	default:
		c.prepared()
	}
}

// readOnly writes a transaction that only reads, more or less.
func (c *writer) readOnly() {
	any := func(of ...string) string { return of[c.r.IntN(len(of))] }
	run := func(text string) {
		switch c.r.IntN(3) {
		case 0:
			c.send("Query", text)
		case 1:
			c.send("Parse", "", text)
			c.send("Bind", any("", "", "", "x"))
			c.send("Describe", "P")
			c.send("Execute", "", any("0", "0", "0", "2"))
			c.send("Sync")
		case 2:
			c.send("Bind", "", any("a", "b", "c"))
			c.send("Execute", "")
			c.send("Sync")
		}
	}
	if c.r.IntN(3) == 0 { // as drivers do
		c.send("Parse", "", "BEGIN READ ONLY")
		c.send("Bind", "", "")
		c.send("Execute", "")
	}
	run(any("BEGIN READ ONLY", "BEGIN READ ONLY", "rows 2 i0000", "START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ"))
	for range c.r.IntN(6) {
		c.ids++
		switch c.r.IntN(10) {
		case 0:
			text := any("write 0", "fail r", "standby 0", "SAVEPOINT s", "SHOW pgpilot.freshness", "modes 0", "SET LOCAL a TO l1", "BEGIN", "SET TRANSACTION READ ONLY", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN")
			if !isOwn(text) {
				text += fmt.Sprintf(" i%04d", c.ids)
			}
			c.send("Query", text)
		case 1:
			c.group()
		default:
			run(fmt.Sprintf(any("rows 2 i%04d", "value 0 i%04d", "rows 40 i%04d", "recall 0 i%04d", "settings 0 i%04d"), c.ids))
		}
	}
	run(any("COMMIT", "COMMIT", "ROLLBACK", "END", "COMMIT AND CHAIN"))
}

// prepared writes a sequence about prepared statements: few names and few texts,
// so that they meet.
func (c *writer) prepared() {
	any := func(of ...string) string { return of[c.r.IntN(len(of))] }
	name := func() string { return any("", "", "a", "b", "c") }
	portal := func() string { return any("", "", "", "x") }
	text := func() string {
		return any("rows 2 p0", "rows 5 p1", "standby 0 pb", "value 0 p2", "value 0 p2", "rows 1 p3", "write 0 p4", "begin 0 p5", "commit 0 p6",
			"rollback 0 p7", "fail r p8", "unparsable 0 p9", "recall 0 pa", "BEGIN", "BEGIN READ ONLY", "BEGIN READ ONLY", "BEGIN READ WRITE", "COMMIT", "ROLLBACK", "modes 0 pc")
	}
	if c.once { // the unnamed statement is one that is to run once
		c.send("Parse", "", text())
		c.once = false
	}
	for range 1 + c.r.IntN(7) {
		switch c.r.IntN(12) {
		case 0, 1, 2:
			c.send("Parse", append([]string{name(), text()}, []string{"23", "25"}[:c.r.IntN(8)/6]...)...)
		case 3, 4, 5:
			if p := portal(); p == "" {
				c.send("Bind", p, name())
			} else { // not DEALLOCATE, whose portal no server has
				c.send("Bind", p, any("a", "b", "c"))
			}
		case 6:
			c.send("Describe", "S"+name())
		case 7:
			c.send("Describe", "P"+portal())
		case 8, 9:
			c.send("Execute", portal(), any("0", "0", "1", "2"))
		case 10:
			c.send("Close", any("S", "P")+name())
		case 11:
			switch c.r.IntN(6) {
			case 5: // portals of the router's, under a name that no server's has
				c.send("Parse", "o", any("SHOW pgpilot.freshness", "SHOW pgpilot.freshness", "SET pgpilot.freshness TO '4ms'"))
				for range 1 + c.r.IntN(3) {
					o := any("o", "o", "")
					c.send("Bind", o, "o")
					c.send("Execute", o, any("0", "1", "2"))
					c.send("Execute", any("o", "o", ""), any("0", "1"))
					if c.r.IntN(2) == 0 {
						c.send("Close", "Po")
					}
				}
			case 1:
				c.send("Parse", "", c.own())
				c.send("Bind", "", "")
				c.send("Describe", "P")
				c.send("Execute", "")
			case 0:
				c.send("Flush")
			case 2:
				c.send("Parse", "", any("DEALLOCATE a", "DEALLOCATE b", "DEALLOCATE ALL", c.own(), c.own()))
				if c.r.IntN(2) == 0 {
					c.send("Describe", "S")
				}
				c.send("Bind", "", "")
				c.send("Execute", "")
				c.send("Parse", "", text())
			default:
				n := name()
				c.send("Bind", "", n)
				c.send("Execute", "")
			}
		}
	}
	c.send("Sync")
	if c.r.IntN(8) == 0 {
		c.send("Query", any("DEALLOCATE b", "DEALLOCATE c", "DISCARD ALL", "DEALLOCATE ALL"))
	}
}

// sql writes statements about what is prepared with SQL, under names that prepared uses,
// too, with what may come in between.
func (c *writer) sql() {
	any := func(of ...string) string { return of[c.r.IntN(len(of))] }
	name := func() string { return any("a", "b", "c", "g", "g", "h") }
	for range 1 + c.r.IntN(6) {
		switch c.r.IntN(13) {
		case 0, 1, 2:
			c.send("Query", "PREPARE "+name()+" AS "+any("rows 2 p0", "rows 2 p0", "value 0 p2", "value 0 p2", "write 0 p4", "standby 0 pb", "fail r p8", "unparsable 0 p9", "settings 0 pc"))
		case 3, 4, 5, 6:
			c.send("Query", "EXECUTE "+name())
		case 7:
			c.send("Query", "DEALLOCATE "+any("g", "g", "h", "ALL"))
		case 8:
			c.send("Query", c.setting())
		case 9:
			c.send("Query", any("begin 0 x", "commit 0 x", "rollback 0 x"))
		case 10:
			c.send("Query", any("EXECUTE "+name()+";EXECUTE "+name(), "PREPARE "+name()+" AS rows 1 p3;rows 1 p3", "write 0 p4;DEALLOCATE g"))
		case 11:
			c.prepared()
		case 12:
			c.taken()
		}
	}
}

// taken writes statements about a name that stands for a statement which the router
// executes itself. EXECUTE does not find that, which is a difference.
func (c *writer) taken() {
	any := func(of ...string) string { return of[c.r.IntN(len(of))] }
	c.send("Parse", "l", any("DEALLOCATE ALL", "DEALLOCATE g", c.own()))
	c.send("Sync")
	for range 1 + c.r.IntN(3) {
		c.send("Query", any("PREPARE l AS rows 2 p0", "PREPARE l AS write 0 p4", "begin 0 x", "rollback 0 x", "rows 1 p3;PREPARE l AS rows 2 p0"))
	}
	if c.r.IntN(4) == 0 {
		c.send("Parse", "", "PREPARE l AS rows 2 p0")
		c.send("Bind", "", "")
		c.send("Execute", "")
		c.send("Sync")
	}
	if c.r.IntN(2) == 0 {
		c.send("Query", "DEALLOCATE l")
	}
}

// data is what follows a statement that copies in.
func (c *writer) data() {
	for range c.r.IntN(4) {
		switch c.r.IntN(12) {
		case 0:
			c.send("CopyData", "bad")
		case 1:
			c.send("Flush")
		case 2:
			c.send("CopyData", strings.Repeat("x", 300))
		default:
			c.send("CopyData", "data")
		}
	}
	if c.r.IntN(5) == 0 {
		c.send("CopyFail", "enough")
	} else {
		c.send("CopyDone")
	}
}

// mixed is data with Syncs in it, which may go on with anything where its end should be.
func (c *writer) mixed() {
	for range 1 + c.r.IntN(5) {
		switch c.r.IntN(6) {
		case 0:
			c.send("CopyData", "bad")
		case 1, 2:
			c.send("Sync")
		case 3:
			c.send([]string{"Flush", "CopyDone", "CopyFail"}[c.r.IntN(3)])
		default:
			c.send("CopyData", "data")
		}
	}
}

func (c *writer) sequence() {
	c.once = true
	for range 1 + c.r.IntN(4) {
		switch c.r.IntN(8) {
		case 0:
			c.ids++
			c.send("Parse", fmt.Sprintf("unparsable 0 i%04d", c.ids))
		case 1:
			c.send("Flush")
		case 2:
			c.send("Close")
		case 3:
			c.send("FunctionCall")
		case 4:
			c.send("Query", c.blind())
		case 5:
			c.ids++
			verb := "copyin"
			if c.r.IntN(4) == 0 {
				verb = "copyfail"
			}
			c.send("Parse", fmt.Sprintf("%s 0 i%04d", verb, c.ids))
			c.send("Bind")
			c.send("Execute")
			early := c.r.IntN(2) == 0
			if early {
				c.send("Sync") // as libpq does, before it knows that data is wanted
			}
			if !c.whole && c.r.IntN(3) == 0 {
				c.mixed()
				break
			}
			c.data()
			if early {
				c.send("Sync")
			}
		default:
			s := c.statement()
			if c.r.IntN(10) == 0 {
				s = fmt.Sprintf("defer 0 i%04d", c.ids)
			}
			if strings.TrimSpace(s) == "" {
				s = fmt.Sprintf("rows 0 i%04d", c.ids)
			}
			c.send("Parse", s)
			c.send("Bind")
			c.send("Describe")
			c.send("Execute")
		}
		if c.r.IntN(3) == 0 {
			c.send("Sync")
		}
	}
	c.send("Sync")
}
