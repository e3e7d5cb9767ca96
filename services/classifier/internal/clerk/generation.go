package clerk

import (
	"unique"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

func (c *Clerk) generation(database string) uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generations[database]
}

// remember keeps a verdict unless its generation has passed.
func (c *Clerk) remember(database string, m matter, v verdict.Verdict) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.generations[database] != v.Generation {
		return false
	}
	c.opts.Metrics.evicted.Add(float64(c.cache.add(m, v)))
	return true
}

// Flush forgets all verdicts of a database and gives its new generation, to be
// published.
func (c *Clerk) Flush(database string) (generation uint64) {
	for known := c.generation(database); ; {
		generation = c.opts.Numbers.Next(known)
		c.mu.Lock()
		if known = c.generations[database]; known < generation {
			c.beginLocked(database, generation)
			c.mu.Unlock()
			return generation
		}
		c.mu.Unlock() // a sibling's flush came between
	}
}

// Flushed takes note of a flush that another classifier has published, and reports
// whether it is news.
func (c *Clerk) Flushed(database string, generation uint64) bool {
	if generation <= c.generation(database) {
		return false
	}
	c.opts.Numbers.Note(generation)
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation <= c.generations[database] {
		return false
	}
	c.beginLocked(database, generation)
	return true
}

func (c *Clerk) beginLocked(database string, generation uint64) {
	c.generations[database] = generation
	c.opts.Metrics.flushes.Inc()
	of := unique.Make(database)
	c.cache.remove(func(m matter) bool { return m.database == of })
}

// Generations gives the generation of each database that had a flush.
func (c *Clerk) Generations() map[string]uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make(map[string]uint64, len(c.generations))
	for database, g := range c.generations {
		out[database] = g
	}
	return out
}

// Known is a remembered verdict.
type Known struct {
	Database string
	Key      sqltoken.Key
	Verdict  verdict.Verdict
}

// Recent gives the most recently used verdicts, at most n, the latest last.
func (c *Clerk) Recent(n int) []Known {
	keys := c.cache.keys() // oldest first
	keys = keys[max(0, len(keys)-n):]
	out := make([]Known, 0, len(keys))
	for _, m := range keys {
		if v, ok := c.cache.peek(m); ok {
			out = append(out, Known{m.database.Value(), m.key, v})
		}
	}
	return out
}

// Learn keeps a verdict of another classifier, unless its generation has passed or
// the matter is known.
func (c *Clerk) Learn(k Known) {
	c.Flushed(k.Database, k.Verdict.Generation)
	m := matter{unique.Make(k.Database), k.Key}
	if _, known := c.cache.peek(m); known {
		return
	}
	if c.remember(k.Database, m, k.Verdict) {
		c.opts.Metrics.learned.Inc()
	}
}
