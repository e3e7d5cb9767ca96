package verdict

import "time"

// A classifier follows the catalogs of the databases that it has been asked about. While
// every verdict is known nobody asks, and one that has been started would not notice that
// a catalog has changed while there was none.

// Follow has each classifier follow the database's catalog, now and whenever it is
// connected again: it is asked about an empty text. It does not block.
func (c *Client) Follow(database string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.closed || c.state.followed[database] {
		return
	}
	c.state.followed[database] = true
	for _, l := range c.state.links {
		if l.up {
			l.followLocked(database)
		}
	}
}

// followLocked asks about an empty text. Nobody waits for the answer, but it may be the
// first to say that older verdicts hold no more (Verdict.Generation).
func (l *link) followLocked(database string) {
	c := l.c
	a := &ask{req: Request{Database: database}, deadline: time.Now().Add(c.state.timeout)}
	a.deliver = func(v Verdict, err error) {
		if err == nil && c.opts.Late != nil {
			c.opts.Late(database, a.req.Key, v)
		}
	}
	c.waitLocked(a)
	c.state.lastID++
	if err := l.pushLocked(c.state.lastID, a); err != nil {
		c.failLocked(a, err)
	}
}
