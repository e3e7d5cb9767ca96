package clerk

import (
	"sync"
	"unique"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// maxPassing is how many passing verdicts are kept.
const maxPassing = 1000

// passing has what was judged with a name that is not known, so that it is parsed
// again only when more is known. It keeps no catalog alive but the last that each
// database was judged by.
type passing struct {
	mu       sync.Mutex
	hearings *simplelru.LRU[matter, hearing] // guarded by mu
	// by is the catalog of each database that the hearings are of; guarded by mu.
	by map[unique.Handle[string]]judge.Catalog
}

func newPassing() (*passing, error) {
	l, err := simplelru.NewLRU[matter, hearing](maxPassing, nil)
	if err != nil {
		return nil, err
	}
	return &passing{hearings: l, by: make(map[unique.Handle[string]]judge.Catalog)}, nil
}

// get gives what was heard by this catalog.
func (p *passing) get(m matter, by judge.Catalog) (hearing, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnLocked(m.database, by)
	return p.hearings.Get(m)
}

func (p *passing) add(m matter, h hearing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnLocked(m.database, h.by)
	p.hearings.Add(m, h)
}

// turnLocked forgets what was heard by another catalog of the database.
func (p *passing) turnLocked(database unique.Handle[string], by judge.Catalog) {
	if p.by[database] == by {
		return
	}
	p.by[database] = by
	for _, m := range p.hearings.Keys() {
		if m.database == database {
			p.hearings.Remove(m)
		}
	}
}
