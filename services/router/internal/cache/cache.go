package cache

import (
	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// Cache holds a bounded number of verdicts in two generations of use: what is used
// moves to the young one, and when that is full the old one is dropped. A verdict
// that is in use is therefore never lost, and nothing is kept for bookkeeping.
type Cache struct {
	half       int
	young, old table
	// flushed has the generation of each database that had a flush.
	flushed map[string]uint64
	// Hits and Misses count look-ups.
	Hits, Misses uint64
}

// New makes a cache of at most size verdicts.
func New(size int) *Cache {
	return &Cache{half: max(1, size/2), flushed: map[string]uint64{}}
}

// Resize changes how many verdicts are kept at most. What is too much goes with
// the next turn of the generations.
func (c *Cache) Resize(size int) { c.half = max(1, size/2) }

// Get looks a verdict up whose database is in the generation since.
func (c *Cache) Get(k sqltoken.Key, since uint64) (verdict.Verdict, bool) {
	v := c.young.get(&k)
	if v == nil {
		v = c.revive(k)
	}
	if v != nil && v.Generation >= since {
		c.Hits++
		return *v, true
	}
	c.Misses++
	return verdict.Verdict{}, false
}

// revive moves a verdict that is used to the young ones.
func (c *Cache) revive(k sqltoken.Key) *verdict.Verdict {
	v := c.old.get(&k)
	if v == nil {
		return nil
	}
	c.keep(k, *v)
	return c.young.get(&k)
}

// Put keeps a verdict, unless it is a passing one or its generation has passed.
func (c *Cache) Put(database string, k sqltoken.Key, v verdict.Verdict) {
	if !v.Passing && v.Generation >= c.flushed[database] {
		c.keep(k, v)
	}
}

func (c *Cache) keep(k sqltoken.Key, v verdict.Verdict) {
	full := c.young.n >= c.half || c.young.n > 0 && c.young.details+v.Detail.Size() > c.half*verdict.DetailRoom
	if full && c.young.get(&k) == nil {
		c.old, c.young = c.young, table{}
	}
	c.young.put(k, v)
}

// Generation is that of the database: what Get wants to know.
func (c *Cache) Generation(database string) uint64 { return c.flushed[database] }

// Flush begins a generation of the database and reports whether it is a new one.
func (c *Cache) Flush(database string, generation uint64) bool {
	if generation <= c.flushed[database] {
		return false
	}
	c.flushed[database] = generation
	return true
}

// Len is how many verdicts are kept; one in both generations counts twice.
func (c *Cache) Len() int { return c.young.n + c.old.n }

// Bytes is the memory of the verdicts with their details.
func (c *Cache) Bytes() int {
	return (len(c.young.slots)+len(c.old.slots))*slotSize + c.young.details + c.old.details
}
