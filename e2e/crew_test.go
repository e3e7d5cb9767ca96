package e2e

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
)

// crew are sessions that each write a growing number to a row of their own and read
// it back, over and over. Nobody else writes those rows: a number below the last one
// written is a stale read.
type crew struct {
	rig   *rig
	hands []*hand
	quit  chan struct{}
	wg    sync.WaitGroup
}

// hand is one session of a crew.
type hand struct {
	*client
	row     int
	primary int64 // the port of the server that takes writes

	// written and rounds may be read while the session works; the rest after it has
	// stopped.
	written, rounds  atomic.Int64
	lastPort         atomic.Int64 // of the server that the last read ran on
	ended            atomic.Bool  // by an error
	onReplica, stale int
	firstStale       string
	err              error
}

// newCrew connects the sessions of a crew, which stand still until they are told to
// work. When it returns, all replicas have their rows.
func (r *rig) newCrew(n int) *crew {
	r.t.Helper()
	first := r.rows + 1
	r.rows += n
	su := direct(r.t, r.Lab.Primary())
	defer su.close()
	su.must(fmt.Sprintf(`CREATE TABLE IF NOT EXISTS crew (hand int PRIMARY KEY, v bigint NOT NULL) WITH (fillfactor = 50);
		ALTER TABLE crew OWNER TO pgpilot;
		INSERT INTO crew SELECT g, 0 FROM generate_series(%d, %d) g ON CONFLICT (hand) DO UPDATE SET v = 0`, first, r.rows))
	r.caughtUp()
	c := &crew{rig: r}
	primary := int64(r.Lab.Primary().Port)
	for row := range n {
		c.hands = append(c.hands, &hand{client: r.connect(), row: first + row, primary: primary})
	}
	return c
}

// work lets every session do a number of rounds and returns when all have.
func (c *crew) work(rounds int) {
	c.each(func(h *hand) {
		for range rounds {
			if !h.round() {
				return
			}
		}
	})
	c.wg.Wait()
}

// chase lets every session do a number of rounds in which it reads on after its
// write until a replica has answered: the first moment at which one may.
func (c *crew) chase(rounds int) {
	c.each(func(h *hand) {
		for range rounds {
			from := h.onReplica
			if !h.round() {
				return
			}
			for n := 0; h.onReplica == from && n < 1000; n++ {
				if !h.look() {
					return
				}
			}
		}
	})
	c.wg.Wait()
}

// start lets the sessions write and read until stop.
func (c *crew) start() { c.keep((*hand).round) }

// watch lets the sessions only read until stop.
func (c *crew) watch() {
	c.keep(func(h *hand) bool {
		ok := h.look()
		h.rounds.Add(1)
		return ok
	})
}

func (c *crew) keep(step func(*hand) bool) {
	quit := make(chan struct{})
	c.quit = quit
	c.each(func(h *hand) {
		for {
			select {
			case <-quit:
				return
			default:
			}
			if !step(h) {
				return
			}
		}
	})
	c.rig.t.Cleanup(c.stop) // a failed test must not leave them at it
}

// stop returns when the sessions stand still.
func (c *crew) stop() {
	if c.quit != nil {
		close(c.quit)
		c.quit = nil
	}
	c.wg.Wait()
}

// pass waits until every session has done some whole rounds that began after the
// call.
func (c *crew) pass(rounds int64) {
	c.rig.t.Helper()
	for _, h := range c.hands {
		c.rig.advance(fmt.Sprintf("session %d goes on", h.row), func() int64 {
			if h.ended.Load() {
				c.stop()
				c.mustBeSound()
				c.rig.t.FailNow()
			}
			return h.rounds.Load()
		}, h.rounds.Load()+rounds+1)
	}
}

func (c *crew) each(f func(*hand)) {
	for _, h := range c.hands {
		c.wg.Go(func() {
			f(h)
			h.ended.Store(h.err != nil)
		})
	}
}

// round writes the next number and reads it back.
func (h *hand) round() bool {
	next := h.written.Load() + 1
	if _, h.err = h.run(fmt.Sprintf("UPDATE crew SET v = %d WHERE hand = %d", next, h.row)); h.err != nil {
		return false
	}
	h.written.Store(next)
	if !h.look() {
		return false
	}
	h.rounds.Add(1)
	return true
}

// look reads the session's row.
func (h *hand) look() bool {
	rows, err := h.run(fmt.Sprintf("SELECT v, inet_server_port() FROM crew WHERE hand = %d", h.row))
	if err != nil {
		h.err = err
		return false
	}
	if len(rows) != 1 {
		h.err = fmt.Errorf("%d rows", len(rows))
		return false
	}
	got, err := strconv.ParseInt(rows[0][0], 10, 64)
	if err != nil {
		h.err = err
		return false
	}
	port, err := strconv.ParseInt(rows[0][1], 10, 64)
	if err != nil {
		h.err = err
		return false
	}
	h.lastPort.Store(port)
	if want := h.written.Load(); got != want {
		h.stale++
		if h.firstStale == "" {
			h.firstStale = fmt.Sprintf("session %d read %d from port %d after it had written %d", h.row, got, port, want)
		}
	}
	if port != h.primary {
		h.onReplica++
	}
	return true
}

// totals sums up. The crew must stand still.
func (c *crew) totals() (stale, onReplica int) {
	for _, h := range c.hands {
		stale += h.stale
		onReplica += h.onReplica
	}
	return stale, onReplica
}

// mustBeSound fails the test if a session has met an error or read a stale value.
// The crew must stand still.
func (c *crew) mustBeSound() {
	c.rig.t.Helper()
	for _, h := range c.hands {
		if h.err != nil {
			c.rig.t.Errorf("session %d after %d rounds: %v", h.row, h.rounds.Load(), h.err)
		}
		if h.stale > 0 {
			c.rig.t.Errorf("%d stale reads: %s", h.stale, h.firstStale)
		}
	}
}
