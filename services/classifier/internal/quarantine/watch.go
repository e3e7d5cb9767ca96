package quarantine

import (
	"context"
	"maps"
	"time"
)

const (
	// lookEvery is how often Watch looks for entries that have ended, and writes what is not
	// in the file yet.
	lookEvery = time.Second
	// endsEvery is how often it tells of entries whose time was up. Many that came one after
	// the other end so, and each time all verdicts of a database are forgotten.
	endsEvery = time.Minute
)

// watched is an entry whose end has not been told.
type watched struct {
	database string
	ends     time.Time
}

// Watch calls released with each database that has an entry less than before,
// until ctx ends: what was said of its statements may be said otherwise now. Entries that
// newer ones have pushed out do not count: what was said of them is as true as before. It
// also keeps the file whole.
func (q *Quarantine) Watch(ctx context.Context, released func(database string)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		q.save()
		for database := range q.freed() {
			released(database)
		}
	}
}

// freed takes the databases of the entries that hold no more: at once of those that somebody
// has removed, and from time to time of those whose time was up.
func (q *Quarantine) freed() map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refreshLocked()
	s := &q.state
	out := make(map[string]bool)
	now := q.opts.Now()
	full := len(s.saved)+len(s.unsaved) >= q.opts.Most
	for key, w := range s.watched {
		_, there := s.keys[key]
		switch {
		case !now.Before(w.ends):
			s.toTell[w.database] = true
		case there:
			continue
		case !full:
			out[w.database] = true
		}
		delete(s.watched, key)
	}
	if len(s.toTell) > 0 && now.Sub(s.told).Abs() >= endsEvery {
		maps.Copy(out, s.toTell)
		clear(s.toTell)
		s.told = now
	}
	return out
}
