package e2e

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// The primary dies and a replica is promoted, and later the former primary comes
// back as it was.
func TestPromotion(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	old, next, other := cluster.Members()[0], cluster.Members()[1], cluster.Members()[2]
	r := newRig(t, cluster, func(c *config.Config) { c.Failover.Wait = config.Duration(patience) })
	unfenced, fenced, inside, waiting := r.connect(), r.connect(), r.connect(), r.connect()
	unfenced.must("SELECT 1")
	fenced.must("CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)")
	r.caughtUp()
	r.until("the fence is known", func() bool { return fenced.port() != old.Port })
	if f := fenced.route().Fence; !strings.HasPrefix(f, "1@") {
		t.Fatalf("fence %q, want one of timeline 1", f)
	}
	for _, c := range []*client{fenced, unfenced} { // a statement that is new needs a catalog that is up to date
		r.readsOnReplica(c, "SELECT count(*) FROM kept")
	}
	inside.must("BEGIN; INSERT INTO kept VALUES (2)")

	if err := old.Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := inside.run("INSERT INTO kept VALUES (3)"); err == nil || !inside.gone() {
		t.Errorf("a transaction whose server is lost: %v, gone %t; want its end", err, inside.gone())
	}
	written := make(chan error, 1)
	go func() {
		_, err := waiting.run("INSERT INTO kept VALUES (4)")
		written <- err
	}()
	for range 20 { // common history: no primary is needed for it
		unfenced.must("SELECT count(*) FROM kept")
		if got := fenced.one("SELECT count(*) FROM kept"); got != "1" {
			t.Errorf("the session that wrote a row reads %s", got)
		}
	}
	if err := cluster.Promote(timeout(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("a write that came before the promotion: %v", err)
	}
	if got := waiting.one("SELECT string_agg(id::text, ',' ORDER BY id) FROM kept"); got != "1,4" {
		t.Errorf("its session reads %s", got)
	}
	if got := waiting.one("INSERT INTO kept VALUES (5) RETURNING inet_server_port()"); got != direct(t, next).one("SELECT inet_server_port()") {
		t.Errorf("written on port %s, the new primary's is %d", got, next.Port)
	}
	// Without another write, the fence of before has come along.
	r.until("the fenced session reads on the replica that is left", func() bool { return fenced.port() == other.Port })
	if f := fenced.route().Fence; !strings.HasPrefix(f, "2@") {
		t.Errorf("fence %q, want one of timeline 2", f)
	}
	if n := r.metric("pgpilot_fence_lost_total"); n != 0 {
		t.Errorf("%v writes are said to be lost", n)
	}

	if err := old.Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("the former primary is told apart", func() bool { return r.metric("pgpilot_backend_superseded", "backend", old.Name) == 1 })
	for range 20 {
		c := r.connect()
		c.must("INSERT INTO kept VALUES (6)")
		c.close()
	}
	if got := direct(t, old).one("SELECT max(id) FROM kept"); got != "1" {
		t.Errorf("the former primary has row %s", got)
	}
	if got := direct(t, next).one("SELECT count(*) FROM kept WHERE id = 6"); got != "20" {
		t.Errorf("the new primary has %s rows of 20", got)
	}
}

// What the new primary never got is lost, and the session that wrote it is told.
func TestALostWriteIsTold(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, 1)
	r := rigOf(t, stacktest.Options{Lab: cluster}, func(c *config.Config) { c.Failover.Wait = config.Duration(patience) })
	r.connect().must("CREATE TABLE lost (id int)")
	r.caughtUp()
	if err := cluster.Replica(1).Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	notices := make(chan *pgconn.Notice, 16)
	cfg, err := pgconn.ParseConfig(r.dsn())
	if err != nil {
		t.Fatal(err)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices <- n }
	conn, err := pgconn.ConnectConfig(timeout(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, conn: conn}
	t.Cleanup(c.close)
	c.must("INSERT INTO lost VALUES (1)")
	r.until("the fence is known", func() bool { c.must("SELECT 1"); return strings.HasPrefix(c.route().Fence, "1@") })
	if err := cluster.Primary().Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Replica(1).Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Promote(timeout(t), 1); err != nil {
		t.Fatal(err)
	}
	if got := c.one("SELECT count(*) FROM lost"); got != "0" {
		t.Errorf("%s rows of a write that is lost", got)
	}
	r.until("it is told", func() bool {
		c.must("SELECT 1")
		return len(notices) > 0
	})
	if n := <-notices; n.Code != "01000" || !strings.Contains(n.Message, "lost") {
		t.Errorf("told: %+v", n)
	}
	if n := r.metric("pgpilot_fence_lost_total"); n != 1 {
		t.Errorf("pgpilot_fence_lost_total is %v", n)
	}
	c.must("INSERT INTO lost VALUES (2)")
	if got := c.one("SELECT id FROM lost"); got != "2" {
		t.Errorf("the session reads %s after its next write", got)
	}
}

// A replica is promoted while the primary is there: writes move, and what was open
// on the former primary ends instead of writing there.
func TestPromotedBesideTheOldPrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	old := cluster.Members()[0]
	r := newRig(t, cluster, nil)
	r.connect().must("CREATE TABLE moved (id int)")
	r.caughtUp()
	inside := r.connect()
	inside.must("BEGIN; INSERT INTO moved VALUES (1)")
	if err := cluster.Promote(timeout(t), 1); err != nil {
		t.Fatal(err)
	}
	r.until("writes have moved", func() bool {
		c := r.connect()
		defer c.close()
		rows, err := c.run("INSERT INTO moved VALUES (2) RETURNING inet_server_port()") // one in between may fail
		return err == nil && len(rows) == 1 && rows[0][0] == strconv.Itoa(cluster.Members()[1].Port)
	})
	if _, err := inside.run("INSERT INTO moved VALUES (3); COMMIT"); err == nil || !inside.gone() {
		t.Errorf("a transaction on the former primary: %v", err)
	}
	if got := direct(t, old).one("SELECT count(*) FROM moved WHERE id IN (1, 3)"); got != "0" {
		t.Errorf("%s rows of it are on the former primary", got)
	}
}

// Without a promotion, a write waits for failover.wait and no longer.
func TestFailoverWait(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) { c.Failover.Wait = config.Duration(time.Second) })
	c, reader := r.connect(), r.connect()
	reader.must("SELECT 1")
	if err := cluster.Primary().Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	pe := c.fails("CREATE TABLE never (id int)", "57P03")
	if !strings.Contains(pe.Message, "1s") || !strings.Contains(pe.Hint, "failover.wait") {
		t.Errorf("told: %q, %q, %q", pe.Message, pe.Detail, pe.Hint)
	}
	reader.must("SELECT 1")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := cluster.Primary().Start(ctx); err != nil {
		t.Fatal(err)
	}
	r.until("the same session writes again", func() bool { _, err := c.run("CREATE TABLE IF NOT EXISTS never (id int)"); return err == nil })
}

// Reads that the primary ran when it died run again once it is back: the other
// connections to it, which die a moment later, are not taken for that.
func TestReadsOfAKilledPrimaryRunAgain(t *testing.T) {
	t.Parallel()
	cluster := labtest.Start(t, 1)
	r := rigOf(t, stacktest.Options{Lab: cluster}, func(c *config.Config) {
		c.Routing.AllToPrimary = true
		c.Failover.Wait = config.Duration(patience)
	})
	var wg sync.WaitGroup
	var reads atomic.Int64
	quit := make(chan struct{})
	stop := sync.OnceFunc(func() { close(quit); wg.Wait() })
	defer stop()
	for i := range 16 {
		c := r.connect()
		wg.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				if _, err := c.run("SELECT count(*) FROM generate_series(1, 500)"); err != nil {
					t.Errorf("reader %d: %v", i, err)
					return
				}
				reads.Add(1)
			}
		})
	}
	pass := func() {
		r.advance("reads go on", func() int64 {
			if t.Failed() {
				t.FailNow()
			}
			return reads.Load()
		}, reads.Load()+200)
	}
	for range 3 {
		pass()
		if err := cluster.Primary().Kill(timeout(t)); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Primary().Start(timeout(t)); err != nil {
			t.Fatal(err)
		}
		pass()
	}
}
