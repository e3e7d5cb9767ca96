package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/faultproxy"
	"github.com/pgpilot/pgpilot/libs/lab"
)

// behindProxies puts a fault proxy before every server of the cluster. change makes
// a configuration use them.
func behindProxies(t testing.TB, cluster *lab.Cluster) (proxies map[string]*faultproxy.Proxy, change func(*config.Config)) {
	t.Helper()
	proxies = map[string]*faultproxy.Proxy{}
	for _, m := range cluster.Members() {
		p, err := faultproxy.New(fmt.Sprintf("%s:%d", m.Host, m.Port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		proxies[m.Name] = p
	}
	return proxies, func(c *config.Config) {
		c.Primary.Address = proxies[c.Primary.Name].Addr()
		for i := range c.Replicas {
			c.Replicas[i].Address = proxies[c.Replicas[i].Name].Addr()
		}
	}
}

// load is clients that read and write steadily, whatever happens, and count what
// they meet.
type load struct {
	rig     *rig
	workers []*worker
	quit    chan struct{}
	wg      sync.WaitGroup

	mu  sync.Mutex
	now tally // guarded by mu
}

// tally is what a load has met in a while.
type tally struct {
	reads, writes int
	// failed are reads that got an error although nothing of their answer had been
	// shown, begun those of which some had been; stale are reads of an old value.
	failed, begun, stale int
	// refused are writes that got an error, lost sessions that were told that a write of
	// theirs is not part of what the new primary has.
	refused, lost             int
	longestRead, longestWrite time.Duration
	notes                     []string
}

// worker is one client with a row of its own.
type worker struct {
	load   *load
	row    int
	rounds atomic.Int64
	conn   *pgconn.PgConn
	// acknowledged is the last value whose write was answered in this session, tried
	// the last one sent in any.
	acknowledged, tried int64
}

// thinkTime is the mean time between two statements of a worker.
const thinkTime = 4 * time.Millisecond

// newLoad starts n workers.
func (r *rig) newLoad(n int) *load {
	r.t.Helper()
	su := direct(r.t, r.Lab.Primary())
	defer su.close()
	su.must(fmt.Sprintf(`CREATE TABLE load (row int PRIMARY KEY, v bigint NOT NULL) WITH (fillfactor = 50);
		ALTER TABLE load OWNER TO %s;
		INSERT INTO load SELECT g, 0 FROM generate_series(1, %d) g;
		CREATE TABLE pages AS SELECT g AS id, repeat('p', 500) AS text FROM generate_series(1, 400) g;
		GRANT SELECT ON pages TO PUBLIC`, lab.User, n))
	r.caughtUp()
	l := &load{rig: r, quit: make(chan struct{})}
	for i := range n {
		w := &worker{load: l, row: i + 1}
		l.workers = append(l.workers, w)
		l.wg.Go(w.work)
	}
	r.t.Cleanup(l.stop)
	l.pass(10)
	return l
}

func (l *load) stop() {
	if l.quit != nil {
		close(l.quit)
		l.quit = nil
	}
	l.wg.Wait()
}

// pass waits until each worker has done so many further statements.
func (l *load) pass(rounds int64) {
	l.rig.t.Helper()
	until := make([]int64, len(l.workers))
	for i, w := range l.workers {
		until[i] = w.rounds.Load() + rounds
	}
	for i, w := range l.workers {
		l.rig.advance(fmt.Sprintf("client %d goes on", w.row), w.rounds.Load, until[i])
	}
}

// take gives what has been met since the last call.
func (l *load) take() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.now
	l.now = tally{}
	return t
}

// work is the life of a worker.
func (w *worker) work() {
	quit := w.load.quit
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() {
		if w.conn != nil {
			_ = w.conn.Close(context.Background()) // its other end may have died on purpose
		}
	}()
	for n := w.row; ; n++ {
		select {
		case <-quit:
			return
		case <-timer.C:
		}
		timer.Reset(time.Duration(rand.ExpFloat64() * float64(thinkTime)))
		if !w.connected() {
			continue
		}
		switch {
		case n%5 == 0:
			w.write()
		case n%10 == 9: // an answer that arrives in pieces
			w.read("SELECT text FROM pages", nil)
		default:
			w.read(fmt.Sprintf("SELECT v FROM load WHERE row = %d", w.row), w.check)
		}
		w.rounds.Add(1)
	}
}

func (w *worker) connected() bool {
	if w.conn != nil && !w.conn.IsClosed() {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg, err := pgconn.ParseConfig(w.load.rig.dsn())
	if err != nil {
		return false
	}
	cfg.OnNotice = w.told
	c, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return false
	}
	w.conn, w.acknowledged = c, 0
	return true
}

// told takes a notice. Replication is asynchronous: what the primary has acknowledged may
// not be part of what a replica has that is promoted. Then the session is told so, and what
// it reads afterwards is not stale.
func (w *worker) told(_ *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code == "01000" && strings.Contains(n.Message, "lost") {
		w.acknowledged = 0
		w.load.note(func(t *tally) { t.lost++ })
	}
}

func (w *worker) write() {
	w.tried++
	from := time.Now()
	_, _, err := w.run(fmt.Sprintf("UPDATE load SET v = %d WHERE row = %d", w.tried, w.row))
	w.load.note(func(t *tally) {
		t.writes++
		t.longestWrite = max(t.longestWrite, time.Since(from))
		if err != nil {
			t.refused++
			t.notes = append(t.notes, fmt.Sprintf("write: %v", err))
		}
	})
	if err == nil {
		w.acknowledged = w.tried
	}
}

func (w *worker) read(sql string, check func(value string) error) {
	from := time.Now()
	value, begun, err := w.run(sql)
	w.load.note(func(t *tally) {
		t.reads++
		t.longestRead = max(t.longestRead, time.Since(from))
		switch {
		case err != nil && begun:
			t.begun++
		case err != nil:
			t.failed++
			t.notes = append(t.notes, fmt.Sprintf("%s: %v", sql, err))
		case check != nil:
			if err := check(value); err != nil {
				t.stale++
				t.notes = append(t.notes, err.Error())
			}
		}
	})
}

// check compares what a worker reads with what it has written.
func (w *worker) check(value string) error {
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return err
	}
	if v < w.acknowledged || v > w.tried {
		return fmt.Errorf("client %d read %d after it had written %d", w.row, v, w.acknowledged)
	}
	return nil
}

// run executes a statement, every other worker with the extended protocol, and gives
// the last value of its answer; begun says that some of it was shown.
func (w *worker) run(sql string) (value string, begun bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	take := func(rows *pgconn.ResultReader) {
		for rows.NextRow() {
			begun, value = true, string(rows.Values()[0])
		}
		begun = begun || len(rows.FieldDescriptions()) > 0
	}
	if w.row%2 == 0 {
		rows := w.conn.ExecParams(ctx, sql, nil, nil, nil, nil)
		take(rows)
		_, err = rows.Close()
	} else {
		results := w.conn.Exec(ctx, sql)
		for results.NextResult() {
			take(results.ResultReader())
		}
		err = results.Close()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", patience, err)
	}
	return value, begun, err
}

func (l *load) note(f func(*tally)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.now)
}
