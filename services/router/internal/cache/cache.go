package cache

import (
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Cache holds a bounded number of verdicts in two generations: what is used moves
// to the young one, and when that is full the old one is dropped. A verdict that
// is in use is therefore never lost, and nothing is kept for bookkeeping.
type Cache struct {
	half       int
	young, old map[sqltoken.Key]verdict.Verdict
	// Hits and Misses count look-ups.
	Hits, Misses uint64
}

// New makes a cache of at most size verdicts.
func New(size int) *Cache {
	c := &Cache{half: max(1, size/2)}
	c.Flush()
	return c
}

// Resize changes how many verdicts are kept at most. What is too much goes with
// the next turn of the generations.
func (c *Cache) Resize(size int) { c.half = max(1, size/2) }

// Get looks a verdict up.
func (c *Cache) Get(k sqltoken.Key) (verdict.Verdict, bool) {
	v, ok := c.young[k]
	if !ok {
		if v, ok = c.old[k]; ok {
			c.Put(k, v)
		}
	}
	if ok {
		c.Hits++
	} else {
		c.Misses++
	}
	return v, ok
}

// Put keeps a verdict.
func (c *Cache) Put(k sqltoken.Key, v verdict.Verdict) {
	if len(c.young) >= c.half {
		if _, ok := c.young[k]; !ok {
			c.old = c.young
			c.young = make(map[sqltoken.Key]verdict.Verdict, c.half/4)
		}
	}
	c.young[k] = v
}

// Flush forgets everything.
func (c *Cache) Flush() {
	c.young = map[sqltoken.Key]verdict.Verdict{}
	c.old = nil
}

// Len is how many verdicts are kept; one in both generations counts twice.
func (c *Cache) Len() int { return len(c.young) + len(c.old) }
