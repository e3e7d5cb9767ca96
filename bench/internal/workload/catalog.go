package workload

// BatchSize is how many statements a pipelined transaction of point selects has.
const BatchSize = 10

// ResultRows is how many rows the workload "rows" asks for at once.
const ResultRows = 1000

// wideRows is how many rows bench_wide has.
const wideRows = 1000

// marks is how many rows bench_marks has: the most clients that write and read back.
const marks = 4096

// All are the workloads, in the order of reports. A new one is one more element.
func All() []*Workload {
	const selectText = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
	const updateText = "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2"
	var (
		point    = newStatement("point", selectText)
		update   = newStatement("update_account", updateText)
		wide     = newStatement("wide", "SELECT * FROM bench_wide WHERE id = $1")
		many     = newStatement("many", "SELECT aid, bid, abalance FROM pgbench_accounts WHERE aid >= $1 AND aid < $2")
		begin    = newStatement("tx_begin", "BEGIN")
		end      = newStatement("tx_end", "END")
		teller   = newStatement("update_teller", "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2")
		branch   = newStatement("update_branch", "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2")
		history  = newStatement("insert_history", "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)")
		mark     = newStatement("mark", "UPDATE bench_marks SET value = $1 WHERE id = $2")
		readMark = newStatement("read_mark", "SELECT value FROM bench_marks WHERE id = $1")
	)
	onePoint := func(t *Transaction, c *client) { t.add(point, c.account()) }
	return []*Workload{
		{Name: "select", Title: "point selects", statements: []*Statement{point}, transaction: onePoint},
		{Name: "batch", Title: "10 point selects", statements: []*Statement{point}, transaction: func(t *Transaction, c *client) {
			for range BatchSize {
				t.add(point, c.account())
			}
		}},
		{Name: "mixed", Title: "20 % writes", statements: []*Statement{point, update}, transaction: func(t *Transaction, c *client) {
			if c.random.IntN(5) == 0 {
				t.add(update, c.delta(), c.account())
				return
			}
			t.add(point, c.account())
		}},
		{Name: "tpcb", Title: "TPC-B", statements: []*Statement{begin, update, point, teller, branch, history, end}, transaction: func(t *Transaction, c *client) {
			delta, account := c.delta(), c.account()
			t.add(begin)
			t.add(update, delta, account)
			t.add(point, account)
			tid := 1 + c.random.Int64N(10*c.branches())
			bid := 1 + c.random.Int64N(c.branches())
			t.add(teller, delta, tid)
			t.add(branch, delta, bid)
			t.add(history, tid, bid, account, delta)
			t.add(end)
		}},
		{Name: "wide", Title: "wide rows (2 kB)", statements: []*Statement{wide}, transaction: func(t *Transaction, c *client) {
			t.add(wide, 1+c.random.Int64N(wideRows))
		}},
		{Name: "rows", Title: "1,000-row results", statements: []*Statement{many}, transaction: func(t *Transaction, c *client) {
			from := 1 + c.random.Int64N(c.rows-ResultRows)
			t.add(many, from, from+ResultRows)
		}},
		{Name: "writeread", Title: "write, then read it", statements: []*Statement{mark, readMark}, transaction: func(t *Transaction, c *client) {
			id := 1 + int64(c.number)%marks
			t.add(mark, c.turn, id)
			read := t.add(readMark, id)
			read.want, read.checks = c.turn, true
		}},
		{Name: "connect", Title: "connect per select", Reconnects: true, statements: []*Statement{point}, transaction: onePoint},
	}
}

func (c *client) account() int64  { return 1 + c.random.Int64N(c.rows) }
func (c *client) branches() int64 { return c.rows / accountsPerBranch }
func (c *client) delta() int64    { return c.random.Int64N(10000) - 5000 }
