package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/consistency"
)

// worker is one client: it works through sessions, one after the other, each until it
// is lost. Its own key is written by nobody else.
type worker struct {
	*run
	r    *rand.Rand
	own  int32
	conn *pgconn.PgConn
	log  *consistency.Log
	// mode is the fencing mode of its sessions.
	mode string
	// extended uses the extended protocol, async has its commits not wait for the disk.
	extended, async bool
	// quiet clients only read for a while every now and then: their fence stays where it
	// is. turn is when that changes next.
	quiet, reading bool
	turn           time.Time
}

func newWorker(r *run, i int) *worker {
	return &worker{
		run: r, r: rand.New(rand.NewPCG(r.plan.seed, uint64(i+100))), own: int32(100 + i),
		mode: r.modes()[i%len(r.modes())], extended: i%2 == 1, async: i%3 == 1, quiet: i%4 < 2,
	}
}

// work runs until the run ends.
func (w *worker) work() {
	defer func() {
		if w.conn != nil {
			w.hangUp()
		}
	}()
	for {
		select {
		case <-w.quit:
			return
		default:
		}
		if (w.conn == nil || w.conn.IsClosed()) && !w.connect() {
			w.rest(50 * time.Millisecond)
			continue
		}
		w.step()
		if w.r.IntN(4) == 0 {
			w.rest(time.Duration(w.r.ExpFloat64() * float64(20*time.Millisecond)))
		}
	}
}

// rest is the time that a client thinks.
func (w *worker) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.quit:
	case <-timer.C:
	}
}

func (w *worker) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // its end may have died
}

// connect opens a new session.
func (w *worker) connect() bool {
	cfg, err := pgconn.ParseConfig(w.pilot.DSN)
	if err != nil {
		w.t.Error(err)
		return false
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == "01000" {
			w.warnings.Add(1)
		}
	}
	cfg.RuntimeParams["pgpilot.fencing"] = w.mode
	if w.async {
		cfg.RuntimeParams["options"] = "-c synchronous_commit=off"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if w.conn, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
		w.conn = nil
		w.told(err)
		return false
	}
	w.log = consistency.NewLog(w.opened.Add(1))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, sessionLog{w.mode, w.log})
	return true
}

// told counts an error.
func (w *worker) told(err error) {
	code := sqlstate(err)
	if code == "" {
		code = "connection"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems[code]++
}

func sqlstate(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// step does something.
func (w *worker) step() {
	shared := int32(1 + w.r.IntN(sharedKeys))
	if now := time.Now(); w.quiet && now.After(w.turn) {
		w.reading = !w.reading
		w.turn = now.Add(time.Duration(200+w.r.IntN(2500)) * time.Millisecond)
	}
	if w.reading {
		w.read(w.own)
		w.read(shared)
		return
	}
	switch n := w.r.IntN(20); {
	case n < 4:
		w.write(w.own, w.plain)
		w.readAfter(w.own)
	case n < 5:
		w.write(w.own, w.failingCall)
		w.readAfter(w.own)
	case n < 6:
		w.write(w.own, w.committedThenFailed)
		w.readAfter(w.own)
	case n < 7:
		w.write(w.own, w.transaction)
		w.readAfter(w.own)
	case n < 8:
		w.write(w.own, w.rolledBack)
		w.readAfter(w.own)
	case n < 10:
		w.write(shared, w.plain)
		w.readAfter(shared)
	case n < 13:
		w.read(w.own)
	case n < 14:
		w.readInTransaction(shared)
	case n < 15:
		w.readOnly(shared, w.own, shared)
	case n < 16:
		w.readSnapshot(shared)
	default:
		w.read(shared)
		w.read(shared)
	}
}

// readAfter reads what was just written, mostly with no time to think: a replica is
// most likely to be behind then.
func (w *worker) readAfter(key int32) {
	for range w.r.IntN(4) {
		w.read(key)
	}
}

// answerTimeout is how long a client waits for an answer.
const answerTimeout = 20 * time.Second

// ask executes statements and gives the rows of the first result.
func (w *worker) ask(sql string) ([][][]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if w.extended {
		res := w.conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
		return res.Rows, res.Err
	}
	results, err := w.conn.Exec(ctx, sql).ReadAll()
	if len(results) == 0 {
		return nil, err
	}
	return results[0].Rows, err
}

// simply executes statements with the simple protocol.
func (w *worker) simply(sql string) ([][][]byte, error) {
	was := w.extended
	w.extended = false
	defer func() { w.extended = was }()
	return w.ask(sql)
}

func (w *worker) read(key int32) {
	if w.conn.IsClosed() {
		return
	}
	if op, ok := w.readSince(key, w.now()); ok {
		w.log.Add(op)
	}
}

// readSince reads; its interval begins at the given moment. ok is false if it has no
// answer.
func (w *worker) readSince(key int32, invoke int64) (op consistency.Op, ok bool) {
	var before [8]int32
	for i, s := range w.servers {
		before[i] = s.known()
	}
	op = consistency.Op{Key: key, Kind: consistency.Read, Invoke: invoke}
	rows, err := w.ask(fmt.Sprintf("SELECT v, n, inet_server_port() FROM kv WHERE k = %d", key))
	op.Return = w.now()
	if err != nil {
		w.told(err)
		return op, false
	}
	if len(rows) != 1 || len(rows[0]) != 3 {
		w.t.Errorf("a read of key %d gives %d rows", key, len(rows))
		return op, false
	}
	op.Value, op.Version = number(rows[0][0]), number(rows[0][1])
	op.Server = w.serverAt(int(number(rows[0][2])))
	if now := w.servers[op.Server].known(); now == before[op.Server] {
		op.Run = now
	}
	if op.Server == w.primary.Load() {
		w.replies[0].Add(1)
	} else {
		w.replies[1].Add(1)
	}
	return op, true
}

// readInTransaction reads where a transaction block has the primary answer. What the
// read must see is decided by when the block has begun.
func (w *worker) readInTransaction(key int32) {
	if w.conn.IsClosed() {
		return
	}
	begun := w.now()
	if _, err := w.ask("BEGIN"); err != nil {
		w.told(err)
		return
	}
	if op, ok := w.readSince(key, begun); ok {
		w.log.Add(op)
	}
	if !w.conn.IsClosed() {
		w.abandon()
	}
}

// readOnly reads keys in a transaction that may be a replica's. What it must see on the
// primary in the mode linear is decided when it begins there: of a later read, nobody can
// say since when.
func (w *worker) readOnly(keys ...int32) {
	if w.conn.IsClosed() {
		return
	}
	begun := w.now()
	if _, err := w.ask("BEGIN READ ONLY"); err != nil {
		w.told(err)
		return
	}
	for i, key := range keys {
		op, ok := w.readSince(key, begun)
		if !ok {
			break
		}
		if i == 0 || w.mode != "linear" || op.Server != w.primary.Load() {
			w.log.Add(op)
		}
		begun = w.now()
	}
	if !w.conn.IsClosed() {
		w.abandon()
	}
}

// readSnapshot reads a key several times in a transaction with one snapshot, on a replica
// if there is one: it is the same each time.
func (w *worker) readSnapshot(key int32) {
	if w.conn.IsClosed() {
		return
	}
	begun := w.now()
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SET LOCAL pgpilot.route = 'replica'"} {
		if _, err := w.ask(sql); err != nil {
			w.told(err)
			w.abandon()
			return
		}
	}
	first, ok := w.readSince(key, begun)
	if ok {
		w.log.Add(first)
	}
	for range 3 {
		if !ok {
			break
		}
		w.rest(time.Duration(w.r.IntN(3)) * time.Millisecond)
		var op consistency.Op
		if op, ok = w.readSince(key, begun); ok && (op.Value != first.Value || op.Server != first.Server) {
			w.t.Errorf("a transaction reads %d of key %d on server %d and then %d on server %d", first.Value, key, first.Server, op.Value, op.Server)
		}
	}
	if ok {
		w.snapshots.Add(1)
	}
	if !w.conn.IsClosed() {
		w.abandon()
	}
}

func number(b []byte) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// write writes the next value with one of the ways to.
func (w *worker) write(key int32, way func(key int32, value int64) (consistency.Outcome, int64)) {
	if w.conn.IsClosed() {
		return
	}
	op := consistency.Op{Key: key, Kind: consistency.Write, Value: w.values.Add(1), Invoke: w.now()}
	op.Outcome, op.Version = way(key, op.Value)
	op.Return = w.now()
	w.log.Add(op)
}

// update is the statement that writes.
func update(key int32, value int64) string {
	return fmt.Sprintf("UPDATE kv SET v = %d, n = n + 1 WHERE k = %d RETURNING n", value, key)
}

func (w *worker) plain(key int32, value int64) (consistency.Outcome, int64) {
	rows, err := w.ask(update(key, value))
	if err != nil || len(rows) != 1 {
		w.told(err)
		return consistency.Unknown, 0
	}
	return consistency.OK, number(rows[0][0])
}

// failingCall commits and then fails.
func (w *worker) failingCall(key int32, value int64) (consistency.Outcome, int64) {
	_, err := w.ask(fmt.Sprintf("CALL commit_then_fail(%d, %d)", key, value))
	if sqlstate(err) == "KV001" {
		return consistency.OK, 0
	}
	w.told(err)
	return consistency.Unknown, 0
}

// committedThenFailed commits in the middle of a string whose end fails.
func (w *worker) committedThenFailed(key int32, value int64) (consistency.Outcome, int64) {
	_, err := w.simply(update(key, value) + "; COMMIT; SELECT 1/0")
	if sqlstate(err) == "22012" {
		return consistency.OK, 0
	}
	w.told(err)
	return consistency.Unknown, 0
}

func (w *worker) transaction(key int32, value int64) (consistency.Outcome, int64) {
	if _, err := w.ask("BEGIN"); err != nil {
		w.told(err)
		return consistency.Failed, 0
	}
	rows, err := w.ask(update(key, value))
	if err != nil || len(rows) != 1 {
		w.told(err)
		w.abandon()
		return consistency.Failed, 0
	}
	if _, err := w.ask("COMMIT"); err != nil {
		w.told(err)
		return consistency.Unknown, 0
	}
	return consistency.OK, number(rows[0][0])
}

func (w *worker) rolledBack(key int32, value int64) (consistency.Outcome, int64) {
	if _, err := w.ask("BEGIN"); err == nil {
		_, err = w.ask(update(key, value))
		if err != nil {
			w.told(err)
		}
		w.abandon()
	}
	return consistency.Failed, 0
}

// abandon ends a transaction that is not to be committed.
func (w *worker) abandon() {
	if _, err := w.ask("ROLLBACK"); err != nil {
		w.told(err)
		w.hangUp() // it must not go on inside of it
	}
}
