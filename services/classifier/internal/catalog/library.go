package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

// Defaults of Options.
const (
	DefaultMost        = 100
	DefaultUnconfirmed = time.Minute
	DefaultAbsent      = 30 * time.Second
)

// maxRefused is how many databases are remembered that there was no place for.
const maxRefused = 1000

// Options of a Library.
type Options struct {
	Login Login
	// Reads are the functions that may run on a replica because the configuration
	// says so, as schema.name; those of pg_catalog by their name alone or with it.
	Reads []string
	// Parse is used for the bodies of SQL functions. It need not be fast, and it must
	// not crash.
	Parse Parse
	// Changed is called with a database whose verdicts may be wrong now. What is
	// judged after it was called is judged by the new Snapshot. It must not block.
	Changed func(database string)
	// Wait is the longest that a question waits for a catalog to be read.
	Wait time.Duration
	// Most is how many databases are looked into; further ones are not known.
	Most int
	// Unconfirmed is how long a Snapshot is believed while no server can be asked whether
	// it still holds.
	Unconfirmed time.Duration
	// Absent is for how long a database is looked for that no server has, before another may
	// have its place.
	Absent  time.Duration
	Metrics *Metrics
	Log     *slog.Logger
}

// Library has the catalogs of the databases it was asked about. It is safe for
// concurrent use.
type Library struct {
	opts    Options
	ctx     context.Context
	cancel  context.CancelFunc
	watches sync.WaitGroup

	mu    sync.Mutex
	state libraryState // guarded by mu
}

type libraryState struct {
	login Login
	reads map[string]bool
	wait  time.Duration
	shelf map[string]*watch
	// full has the databases that there is no place for; the first one is told.
	full map[string]bool
	// had are the functions of reads that some database has, missed those that one was found
	// to lack, which has been said.
	had, missed map[string]bool
	finished    bool
}

// New gives a Library that knows no database yet. Close it.
func New(o Options) *Library {
	l := &Library{opts: o}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.state = libraryState{login: o.Login, reads: readSet(o.Reads), wait: o.Wait, shelf: make(map[string]*watch)}
	l.state.had, l.state.missed = make(map[string]bool), make(map[string]bool)
	l.state.full = make(map[string]bool)
	return l
}

func readSet(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, name := range list {
		if len(name) > len(systemSchema) && name[:len(systemSchema)+1] == systemSchema+"." {
			name = name[len(systemSchema)+1:]
		}
		out[name] = true
	}
	return out
}

// Set changes what a new configuration may change. Every catalog is judged anew.
func (l *Library) Set(login Login, reads []string, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	login.Primary = l.state.login.Primary
	l.state.login, l.state.reads, l.state.wait = login, readSet(reads), wait
	l.state.had, l.state.missed = make(map[string]bool), make(map[string]bool)
	for _, w := range l.state.shelf {
		w.poke(pokeRead)
	}
}

// Lead says which server is the primary, by its name: catalogs are read there.
func (l *Library) Lead(primary string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if primary == l.state.login.Primary {
		return
	}
	l.state.login.Primary = primary
	for _, w := range l.state.shelf {
		w.poke(pokeLook)
	}
}

// settings gives what a watch needs to know now.
func (l *Library) settings() (login Login, reads map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.login, l.state.reads
}

// Of gives what is known of a database. The first who asks waits a moment for it
// to be read. If it cannot be, only what is PostgreSQL's own is known.
func (l *Library) Of(database string) judge.Catalog {
	w, wait := l.watch(database)
	if w == nil {
		return judge.Blind{}
	}
	s, tried := w.current(wait)
	if s == nil {
		return judge.Blind{Static: judge.Static{Pending: !tried}}
	}
	return s
}

// Again has a look whether a database's catalog has changed since a Snapshot was
// taken, because a name was not in it, and waits for the result. It reports
// whether there is a newer Snapshot. It looks no more often than is cheap; patient waits
// for that, too.
func (l *Library) Again(database string, since judge.Catalog, patient bool) bool {
	w, wait := l.watch(database)
	if w == nil {
		return false
	}
	return w.again(since, patient, wait)
}

// Changing says that a statement is about to change a database's catalog. There
// will be a look a moment later, and again a while after.
func (l *Library) Changing(database string) {
	if w, _ := l.watch(database); w != nil {
		w.poke(pokeSoon)
	}
}

// Look has the database looked at soon, because another classifier saw it change. It is
// followed from then on: the other may end.
func (l *Library) Look(database string) {
	if w, _ := l.watch(database); w != nil {
		w.poke(pokeLook)
	}
}

func (l *Library) watch(database string) (w *watch, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.state.shelf[database]; w != nil {
		return w, l.state.wait
	}
	switch {
	case l.state.finished, database == "":
		return nil, 0
	case len(l.state.shelf) >= l.opts.Most:
		if len(l.state.full) == 0 {
			l.opts.Log.Warn(fmt.Sprintf("only the first %d databases are looked into; reads of the others run on the primary", l.opts.Most),
				obs.KeyDatabase, database)
		}
		if len(l.state.full) < maxRefused {
			l.state.full[database] = true
		}
		return nil, 0
	}
	w = newWatch(l, database)
	l.state.shelf[database] = w
	l.watches.Go(func() { w.run(l.ctx) })
	return w, l.state.wait
}

// forget takes a watch that has ended off the shelf. Who asks about its database again has
// it looked for again. What was said of those that there was no place for is dropped: the
// first that is asked about has it now.
func (l *Library) forget(w *watch) {
	l.mu.Lock()
	delete(l.state.shelf, w.database)
	refused := l.state.full
	l.state.full = make(map[string]bool)
	l.opts.Metrics.names.DeleteLabelValues(w.database)
	l.mu.Unlock()
	for database := range refused {
		l.opts.Changed(database)
	}
}

// Close ends the watches and waits for them. Nothing is known afterwards.
func (l *Library) Close() {
	l.mu.Lock()
	l.state.finished = true
	l.mu.Unlock()
	l.cancel()
	l.watches.Wait()
}
