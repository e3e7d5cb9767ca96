package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func TestReplicaKilledUnderReadersIsNotNoticed(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	direct(t, cluster.Primary()).must("CREATE TABLE pages AS SELECT g AS id, repeat('p', 500) AS text FROM generate_series(1, 2000) g; GRANT SELECT ON pages TO PUBLIC")
	r.caughtUp()

	var wg sync.WaitGroup
	var reads atomic.Int64
	quit := make(chan struct{})
	stop := sync.OnceFunc(func() { close(quit); wg.Wait() })
	defer stop()
	for i := range 16 {
		c := r.connect()
		wg.Go(func() {
			for n := i; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				sql, want := fmt.Sprintf("SELECT text FROM pages WHERE id = %d", n%2000+1), 1
				if i < 2 && n%8 == 0 { // an answer that arrives in pieces
					sql, want = "SELECT text FROM pages WHERE id <= 400", 400
				}
				rows, err := c.run(sql)
				// Only the loss of an answer that was partly shown cannot be hidden, and
				// the session outlives it.
				if err != nil && want > 1 && told[sqlstate(err)] && !c.gone() {
					continue
				}
				if err != nil || len(rows) != want {
					t.Errorf("session %d, %s: %d rows, %v", i, sql, len(rows), err)
					return
				}
				reads.Add(1)
			}
		})
	}
	pass := func() {
		r.advance("reads go on", reads.Load, reads.Load()+2000)
	}
	pass()
	for _, m := range cluster.Replicas() {
		if err := m.Kill(timeout(t)); err != nil {
			t.Fatal(err)
		}
		pass()
		if err := m.Start(timeout(t)); err != nil {
			t.Fatal(err)
		}
		r.awaitReplicas(cluster.Replicas()...)
		pass()
	}
	// A fast shutdown ends every session with a last word.
	for _, m := range cluster.Replicas() {
		if err := m.Stop(timeout(t)); err != nil {
			t.Fatal(err)
		}
		pass()
	}
	stop()
	c := r.connect()
	if got := c.port(); got != cluster.Primary().Port {
		t.Errorf("without replicas, reads run on port %d", got)
	}
}

// told are the SQLSTATEs that a client may be told when its server restarts: the
// server's own last words, a lost connection, no server yet.
var told = map[string]bool{"57P01": true, "57P02": true, "57P03": true, "08006": true}

func TestPrimaryRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	crew := r.newCrew(16)
	crew.start()
	crew.pass(20)
	idle, unfenced := r.connect(), r.connect()
	for _, c := range []*client{idle, unfenced} { // what is not known to read waits for the primary
		r.readsOnReplica(c, "SELECT count(*) FROM crew")
	}
	idle.must("INSERT INTO crew VALUES (1000, 1)")

	if err := cluster.Primary().Stop(timeout(t)); err != nil {
		t.Fatal(err)
	}
	// Reads that need no fence go on meanwhile.
	for range 20 {
		unfenced.must("SELECT count(*) FROM crew")
	}
	if err := cluster.Primary().Start(timeout(t)); err != nil {
		t.Fatal(err)
	}
	crew.stop()

	lived, ended := 0, 0 // none was in a transaction or had state in its server session
	for _, h := range crew.hands {
		if h.stale > 0 {
			t.Errorf("%d stale reads: %s", h.stale, h.firstStale)
		}
		if h.err != nil && !told[sqlstate(h.err)] {
			t.Errorf("session %d: %v", h.row, h.err)
		}
		if h.gone() {
			ended++
			continue
		}
		lived++
	}
	if ended > 0 {
		t.Errorf("%d sessions were ended, %d live on", ended, lived)
	}

	// A session that was idle has noticed nothing.
	if got := idle.one("SELECT v FROM crew WHERE hand = 1000"); got != "1" {
		t.Errorf("the idle session reads %s", got)
	}
	idle.must("UPDATE crew SET v = 2 WHERE hand = 1000")
	if got := idle.one("SELECT v FROM crew WHERE hand = 1000"); got != "2" {
		t.Errorf("the idle session reads %s after its write", got)
	}
	// The others work on; what their last write did is for them to find out.
	r.caughtUp()
	for _, h := range crew.hands {
		if h.gone() {
			continue // counted above
		}
		h.err = nil
		h.written.Add(1)
		if !h.round() {
			t.Errorf("session %d afterwards: %v", h.row, h.err)
			continue
		}
		r.until(fmt.Sprintf("session %d reads from a replica", h.row), func() bool { return h.port() != cluster.Primary().Port })
		if !h.look() || h.stale > 0 {
			t.Errorf("session %d afterwards: %v %s", h.row, h.err, h.firstStale)
		}
	}
}
