package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/stack"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

var (
	rolls   = flag.Int("rolls", 1, "how often TestRoll restarts every service")
	idlers  = flag.Int("idle", 100, "how many idle sessions it has beside the busy ones")
	pgbench = flag.Bool("pgbench", false, "whether pgbench -N writes through pgpilot meanwhile")
)

// actor is a session that does one thing over and over, and knows what it must see.
type actor struct {
	*client
	kind string
	id   int
	n    int
	// heard counts the notifications of its channel.
	heard int
	// pauses are how long each of its rounds has taken.
	pauses []time.Duration
	err    error
}

// acts are what the kinds do in one round: after a write of n, n is what they must see.
var acts = map[string]func(a *actor, ctx context.Context) error{
	"plain": func(a *actor, _ context.Context) error {
		if _, err := a.run(fmt.Sprintf("UPDATE roll SET n = %d WHERE id = %d", a.n, a.id)); err != nil {
			return err
		}
		return a.sees("SELECT n FROM roll WHERE id = "+strconv.Itoa(a.id), a.n)
	},
	"prepared": func(a *actor, ctx context.Context) error {
		if a.n == 1 {
			for name, sql := range map[string]string{"w": "UPDATE roll SET n = $1 WHERE id = $2", "r": "SELECT n FROM roll WHERE id = $1"} {
				if _, err := a.conn.Prepare(ctx, name, sql, nil); err != nil {
					return err
				}
			}
		}
		id, n := []byte(strconv.Itoa(a.id)), []byte(strconv.Itoa(a.n))
		if res := a.conn.ExecPrepared(ctx, "w", [][]byte{n, id}, nil, nil).Read(); res.Err != nil {
			return res.Err
		}
		return a.same(a.conn.ExecPrepared(ctx, "r", [][]byte{id}, nil, nil).Read(), a.n)
	},
	"transaction": func(a *actor, _ context.Context) error {
		for _, sql := range []string{"BEGIN", fmt.Sprintf("UPDATE roll SET n = %d WHERE id = %d", a.n, a.id), "SAVEPOINT s", "UPDATE roll SET n = -1 WHERE id = " + strconv.Itoa(a.id), "ROLLBACK TO s"} {
			if _, err := a.run(sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		if err := a.sees("SELECT n FROM roll WHERE id = "+strconv.Itoa(a.id), a.n); err != nil {
			return err
		}
		if _, err := a.run("COMMIT"); err != nil {
			return err
		}
		return a.sees("SELECT n FROM roll WHERE id = "+strconv.Itoa(a.id), a.n)
	},
	"temporary": func(a *actor, _ context.Context) error {
		sql := "INSERT INTO mine VALUES (1)"
		if a.n == 1 {
			sql = "CREATE TEMP TABLE mine (x int); " + sql
		}
		if _, err := a.run(sql); err != nil {
			return err
		}
		return a.sees("SELECT count(*) FROM mine", a.n)
	},
	"listening": func(a *actor, ctx context.Context) error {
		sql := fmt.Sprintf("NOTIFY roll%d", a.id)
		if a.n == 1 {
			sql = fmt.Sprintf("LISTEN roll%d; ", a.id) + sql
		}
		if _, err := a.run(sql); err != nil {
			return err
		}
		for a.heard < a.n {
			if err := a.conn.WaitForNotification(ctx); err != nil {
				return err
			}
		}
		return nil
	},
	"copying": func(a *actor, ctx context.Context) error {
		var rows bytes.Buffer
		for range 500 {
			fmt.Fprintf(&rows, "%d\t%d\n", a.id, a.n)
		}
		if _, err := a.conn.CopyFrom(ctx, &rows, "COPY rolled FROM STDIN"); err != nil {
			return err
		}
		var out bytes.Buffer
		if _, err := a.conn.CopyTo(ctx, &out, fmt.Sprintf("COPY (SELECT 1 FROM rolled WHERE id = %d AND n = %d) TO STDOUT", a.id, a.n)); err != nil {
			return err
		}
		if got := bytes.Count(out.Bytes(), []byte("\n")); got != 500 {
			return fmt.Errorf("%d of 500 rows are there", got)
		}
		_, err := a.run(fmt.Sprintf("DELETE FROM rolled WHERE id = %d", a.id))
		return err
	},
	"pipelining": func(a *actor, ctx context.Context) error {
		p := a.conn.StartPipeline(ctx)
		id, n := []byte(strconv.Itoa(a.id)), []byte(strconv.Itoa(a.n))
		for range 3 {
			p.SendQueryParams("UPDATE roll SET n = $1 WHERE id = $2", [][]byte{n, id}, nil, nil, nil)
			p.SendQueryParams("SELECT n FROM roll WHERE id = $1", [][]byte{id}, nil, nil, nil)
			if err := p.Sync(); err != nil {
				return err
			}
		}
		for range 3 {
			for i := range 3 {
				res, err := p.GetResults()
				if err != nil {
					return err
				}
				if r, ok := res.(*pgconn.ResultReader); ok {
					if got := r.Read(); got.Err != nil {
						return got.Err
					} else if i == 1 {
						if err := a.same(got, a.n); err != nil {
							return err
						}
					}
				}
			}
		}
		return p.Close()
	},
	"settings": func(a *actor, _ context.Context) error {
		if _, err := a.run(fmt.Sprintf("SET app.n TO '%d'", a.n)); err != nil {
			return err
		}
		return a.sees("SELECT current_setting('app.n') FROM roll LIMIT 1", a.n)
	},
}

// sees reads one number.
func (a *actor) sees(sql string, want int) error {
	rows, err := a.run(sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if len(rows) != 1 || rows[0][0] != strconv.Itoa(want) {
		return fmt.Errorf("%s gives %v instead of %d", sql, rows, want)
	}
	return nil
}

func (a *actor) same(r *pgconn.Result, want int) error {
	if r.Err != nil {
		return r.Err
	}
	if len(r.Rows) != 1 || string(r.Rows[0][0]) != strconv.Itoa(want) {
		return fmt.Errorf("it reads %q instead of %d", r.Rows, want)
	}
	return nil
}

// TestRoll restarts every service, one after another, under clients of every kind: none
// of them may see an error, lose its session, or read a value older than its own last
// write, and no connection may be refused.
func TestRoll(t *testing.T) {
	t.Parallel()
	r := rigOf(t, stacktest.Options{Lab: newCluster(t), Routers: 2}, func(c *config.Config) {
		c.Pool.MaxSize = 40
		c.Limits.MaxClients = *idlers + 200
		c.Drain.Timeout = config.Duration(patience)
	})
	r.connect().must("CREATE TABLE roll (id int PRIMARY KEY, n int); CREATE TABLE rolled (id int, n int); INSERT INTO roll SELECT generate_series(0, 99), 0")
	var idle []*client
	for range *idlers {
		idle = append(idle, r.connect())
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var actors []*actor
	for kind, act := range acts {
		for range 4 {
			a := &actor{kind: kind, id: len(actors)}
			a.client = r.hearing(func() { a.heard++ })
			actors = append(actors, a)
			wg.Go(func() { a.perform(ctx, stop, act) })
		}
	}
	var refused []error
	wg.Go(func() { refused = r.knock(stop) })
	if *pgbench {
		if out, complaints, err := program(t, r.port, "", "pgbench", "-i", "-q", "-s", "5"); err != nil {
			t.Fatalf("%v\n%s%s", err, out, complaints)
		}
		wg.Go(func() { r.benchUntil(t, stop) })
	}
	for n := range *rolls {
		began := time.Now()
		if err := r.Roll(timeoutOf(t, 5*time.Minute), func(p *stack.Process) {}); err != nil {
			t.Errorf("roll %d: %v", n+1, err)
			break
		}
		t.Logf("roll %d took %s", n+1, time.Since(began).Round(time.Millisecond))
	}
	close(stop)
	wg.Wait()
	var pauses []time.Duration
	rounds := 0
	for _, a := range actors {
		if a.err != nil {
			t.Errorf("%s client %d, round %d: %v", a.kind, a.id, a.n, a.err)
		}
		rounds += len(a.pauses)
		pauses = append(pauses, a.pauses...)
	}
	for i, c := range idle {
		if _, err := c.run("SELECT 1"); err != nil {
			t.Errorf("idle session %d: %v", i, err)
		}
	}
	for _, err := range refused {
		t.Errorf("a new connection: %v", err)
	}
	slices.Sort(pauses)
	if rounds > 0 {
		t.Logf("%d rounds: p50 %s, p99 %s, p99.9 %s, longest %s", rounds, pauses[rounds/2], pauses[rounds*99/100], pauses[rounds*999/1000], pauses[rounds-1])
	}
	want := float64(len(idle) + len(actors) + 1)
	r.until(fmt.Sprintf("the listener counts %v clients", want), func() bool { return r.metric("pgpilot_listener_clients") == want })
}

// perform does rounds until it is told to stop, or one fails.
func (a *actor) perform(ctx context.Context, stop chan struct{}, act func(*actor, context.Context) error) {
	for a.n = 1; ; a.n++ {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		began := time.Now()
		a.err = act(a, ctx)
		cancel()
		if a.err != nil {
			return
		}
		a.pauses = append(a.pauses, time.Since(began))
	}
}

// hearing connects a session that calls heard for each notification.
func (r *rig) hearing(heard func()) *client {
	r.t.Helper()
	cfg, err := pgconn.ParseConfig(r.dsn())
	if err != nil {
		r.t.Fatal(err)
	}
	cfg.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { heard() }
	conn, err := pgconn.ConnectConfig(timeout(r.t), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &client{t: r.t, conn: conn}
	r.t.Cleanup(c.close)
	return c
}

// knock opens sessions one after the other until it is told to stop, and gives what went
// wrong.
func (r *rig) knock(stop chan struct{}) (failed []error) {
	for {
		select {
		case <-stop:
			return failed
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		conn, err := pgconn.Connect(ctx, r.dsn())
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT 1").ReadAll()
			_ = conn.Close(ctx)
		}
		cancel()
		if err != nil {
			failed = append(failed, err)
		}
	}
}

// benchUntil has pgbench -N write, of which nothing may fail, until it is told to stop.
func (r *rig) benchUntil(t *testing.T, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		out, complaints, err := program(t, r.port, "", "pgbench", "-n", "-N", "-c", "8", "-j", "2", "-t", "300")
		if m := failed.FindStringSubmatch(out); err != nil || m == nil || m[1] != "0" {
			t.Errorf("pgbench -N: %v\n%s%s", err, out, complaints)
			return
		}
	}
}
