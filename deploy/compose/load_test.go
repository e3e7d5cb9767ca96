//go:build compose

package compose

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// clients is how many sessions the load has.
	clients = 32
	// pause between two rounds of a client keeps the load far below what two cores can do.
	pause = 10 * time.Millisecond
	// answerTimeout bounds one statement: a client that waits longer has been forgotten.
	answerTimeout = time.Minute
)

// load is clients that each write to a row of their own and read it back at once, and
// connect again when they lose their session.
type load struct {
	dsn  string
	stop context.CancelFunc
	wg   sync.WaitGroup

	rounds [clients]atomic.Int64
	// lost counts the sessions of each client that ended.
	lost [clients]atomic.Int64
	// refused counts attempts to connect that failed.
	refused atomic.Int64
	// renew asks a client to log off and in again.
	renew [clients]atomic.Bool

	mu     sync.Mutex
	stale  []string
	losses []string // why sessions ended, in order
}

// losers counts the clients that have lost a session since a moment of which lostBy
// gave the state. A client may have lost several: the next one may be on a router that
// ends a moment later.
func (l *load) losers(before [clients]int64) (n int) {
	for i, now := range l.lostBy() {
		if now > before[i] {
			n++
		}
	}
	return n
}

func (l *load) lostBy() (lost [clients]int64) {
	for i := range lost {
		lost[i] = l.lost[i].Load()
	}
	return lost
}

// startLoad makes the table and starts the clients. They end with the test, or at
// the call of end.
func startLoad(t *testing.T, dsn string) *load {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS load (client int PRIMARY KEY, n bigint NOT NULL)",
		fmt.Sprintf("INSERT INTO load SELECT i, 0 FROM generate_series(0, %d) AS i ON CONFLICT DO NOTHING", clients-1),
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &load{dsn: dsn, stop: stop}
	for i := range clients {
		l.wg.Go(func() { l.client(ctx, i) })
	}
	t.Cleanup(l.end)
	return l
}

// end stops the clients and waits for them.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

// client runs one session after the other until ctx ends.
func (l *load) client(ctx context.Context, number int) {
	var n int64
	for ctx.Err() == nil {
		conn, err := l.connect(ctx, number)
		if err != nil {
			if ctx.Err() == nil {
				l.refused.Add(1)
			}
			wait(ctx)
			continue
		}
		err = l.session(ctx, conn, number, &n)
		if err != nil && ctx.Err() == nil {
			l.lost[number].Add(1)
			l.note(&l.losses, fmt.Sprintf("client %d: %v", number, err))
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		_ = conn.Close(closing) // of a lost session it fails, which has been counted
		cancel()
	}
}

// connect logs in. Odd clients use the simple protocol, the others the extended one with
// prepared statements.
func (l *load) connect(ctx context.Context, number int) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(l.dsn)
	if err != nil {
		return nil, err
	}
	if number%2 == 1 {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return pgx.ConnectConfig(ctx, cfg)
}

// session writes and reads until ctx ends, the client shall log in again, or
// something fails.
func (l *load) session(ctx context.Context, conn *pgx.Conn, number int, n *int64) error {
	for !l.renew[number].Swap(false) {
		*n++
		if err := l.round(ctx, conn, number, *n); err != nil {
			return err
		}
		l.rounds[number].Add(1)
		if !wait(ctx) {
			return nil
		}
	}
	return nil
}

func (l *load) round(ctx context.Context, conn *pgx.Conn, number int, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, "UPDATE load SET n = $2 WHERE client = $1", number, n); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	var got int64
	if err := conn.QueryRow(ctx, "SELECT n FROM load WHERE client = $1", number).Scan(&got); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if got != n {
		l.note(&l.stale, fmt.Sprintf("client %d wrote %d and read %d", number, n, got))
	}
	return nil
}

func (l *load) note(list *[]string, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, time.Now().Format("15:04:05.000 ")+what)
}

// noted gives what a list has from an index on.
func (l *load) noted(list *[]string, from int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), (*list)[min(from, len(*list)):]...)
}

// wait pauses a client; it is false when ctx has ended.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// settle returns when every client has gone through some more rounds, so that all have
// a session and have used it since.
func (l *load) settle(t *testing.T) {
	t.Helper()
	const more = 5
	var goal [clients]int64
	for i := range goal {
		goal[i] = l.rounds[i].Load() + more
	}
	eventually(t, "every client goes on", func() error {
		for i := range goal {
			if l.rounds[i].Load() < goal[i] {
				return fmt.Errorf("client %d does not", i)
			}
		}
		return nil
	})
}

// renewAll makes every client log in again and waits until all have.
func (l *load) renewAll(t *testing.T) {
	t.Helper()
	for i := range l.renew {
		l.renew[i].Store(true)
	}
	eventually(t, "every client logs in again", func() error {
		for i := range l.renew {
			if l.renew[i].Load() {
				return fmt.Errorf("client %d has not", i)
			}
		}
		return nil
	})
	l.settle(t)
}
