package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// A session that asks for the sequence value it has just drawn is offered the
// connection on which it has; it is never told another one's (rule 20).
func TestLastvalIsOnesOwn(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, narrow(2))
	c := r.connect()
	c.must("CREATE TABLE item (id serial PRIMARY KEY, who int)")
	r.until("the table is known, so that its inserts are proven harmless", func() bool {
		c.must("INSERT INTO item (who) VALUES (0) RETURNING id")
		_, err := c.run("SELECT lastval()")
		c.must("DISCARD ALL") // asking binds the session
		return err == nil
	})
	for range 20 {
		drawn := c.one("INSERT INTO item (who) VALUES (0) RETURNING id")
		if got := c.one("SELECT lastval()"); got != drawn {
			t.Fatalf("lastval is %s after %s was drawn", got, drawn)
		}
		c.must("DISCARD ALL")
	}
	other := r.connect()
	for range 4 { // whatever connection it gets
		c.must("INSERT INTO item (who) VALUES (0)")
		other.fails("SELECT lastval()", "55000")
		other.must("DISCARD ALL")
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	asked, answered := 0, 0
	for i := range 6 {
		c := r.connect()
		all.Go(func() {
			for range 60 {
				rows, err := c.run(fmt.Sprintf("INSERT INTO item (who) VALUES (%d) RETURNING id", i))
				if err != nil {
					t.Error(err)
					return
				}
				drawn := rows[0][0]
				rows, err = c.run("SELECT lastval()")
				mu.Lock()
				asked++
				switch {
				case err == nil && rows[0][0] == drawn:
					answered++
				case err == nil:
					t.Errorf("session %d is told %s and has drawn %s", i, rows[0][0], drawn)
				case sqlstate(err) != "55000":
					t.Error(err)
				}
				mu.Unlock()
				if _, err := c.run("DISCARD ALL"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d asked in time", answered, asked)
	// None of them has taken connections for good.
	for range 10 {
		if _, err := r.connect().run("INSERT INTO item (who) VALUES (9)"); err != nil {
			t.Fatal(err)
		}
	}
}
