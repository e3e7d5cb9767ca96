package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/services/classifier/internal/judge"
)

const (
	// shortestPause is the least time between two looks at a fingerprint that nobody
	// waits for. A function redefined behind pgpilot's back is known this late.
	shortestPause = 2 * time.Second
	// share of its time that a server may spend on being looked at: one part in so
	// many.
	share = 20
	// againShare is the same for looks that somebody waits for.
	againShare = 4
	// soon is when a change announced by a statement is looked for first.
	soon = 50 * time.Millisecond
	// later is how much longer each further look waits, up to shortestPause.
	later = 3
	// firstRetry and lastRetry bound the pauses between attempts to connect.
	firstRetry, lastRetry = 250 * time.Millisecond, 10 * time.Second
	// lookTimeout bounds one look, connecting and reading included.
	lookTimeout = 60 * time.Second
)

// poke is a reason to look.
type poke byte

const (
	// pokeLook: compare fingerprints now.
	pokeLook poke = 1 << iota
	// pokeSoon: a moment later, and then again.
	pokeSoon
	// pokeRead: read everything, whatever the fingerprint.
	pokeRead
)

// watch follows one database.
type watch struct {
	l        *Library
	database string
	log      *slog.Logger
	wake     chan struct{}
	// bodies and said, the last complaint, are of the goroutine.
	bodies *bodies
	said   string

	mu    sync.Mutex
	state watchState // guarded by mu
}

type watchState struct {
	pokes poke
	// snapshot is nil while nothing is known.
	snapshot *Snapshot
	// looked is closed, and replaced, after each look.
	looked chan struct{}
	// tried is set after the first look, whatever came of it.
	tried bool
	// last is when the last look ended, began when that was, cost how much of the server's time it took.
	last, began time.Time
	cost        time.Duration
	// failed is when the last look ended of which nothing came.
	failed time.Time
	// failing is when the first of the looks began that have failed since; zero if the last
	// one has not.
	failing time.Time
}

func newWatch(l *Library, database string) *watch {
	return &watch{
		l: l, database: database, log: l.opts.Log.With(obs.KeyDatabase, database),
		wake: make(chan struct{}, 1), bodies: newBodies(l.opts.Parse),
		state: watchState{looked: make(chan struct{})},
	}
}

func (w *watch) poke(p poke) {
	w.mu.Lock()
	w.state.pokes |= p
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take gives the reasons to look since it was called last.
func (w *watch) take() poke {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.state.pokes
	w.state.pokes = 0
	return p
}

// current gives the Snapshot, waiting for the first look. tried says whether there
// has been one.
func (w *watch) current(wait time.Duration) (s *Snapshot, tried bool) {
	w.mu.Lock()
	s, tried, looked := w.state.snapshot, w.state.tried, w.state.looked
	w.mu.Unlock()
	if tried {
		return s, tried
	}
	await(looked, wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.snapshot, w.state.tried
}

// again waits for a look that begins after now and reports whether it has found something new.
// The server may be looked at only so often: looks that follow each other at once would cost it
// too much. Who is patient waits for that too, unless it takes longer than wait, so that what a
// migration fills right after it has made it is known.
func (w *watch) again(since judge.Catalog, patient bool, wait time.Duration) bool {
	asked := time.Now()
	for {
		w.mu.Lock()
		st := w.state
		w.mu.Unlock()
		switch {
		case st.tried && newer(st.snapshot, since):
			return true
		case st.began.After(asked), st.failed.After(asked):
			return false // there has been a look
		}
		rest := time.Duration(0)
		if !st.last.IsZero() {
			rest = againShare*st.cost - time.Since(st.last)
		}
		left := wait - time.Since(asked)
		switch {
		case rest >= left, rest > 0 && !patient:
			return false
		case rest > 0:
			await(st.looked, rest)
		default:
			w.poke(pokeLook)
			await(st.looked, left)
		}
	}
}

// newer reports whether there is a Snapshot and it is another one.
func newer(s *Snapshot, since judge.Catalog) bool {
	return s != nil && judge.Catalog(s) != since
}

func await(done <-chan struct{}, wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// run looks at the database until ctx ends.
func (w *watch) run(ctx context.Context) {
	var conn *watchConn
	defer func() { conn.close() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry, follow := firstRetry, time.Duration(0)
	var absent time.Time // since when no server has the database; zero: one has, or may have
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		why := w.take()
		if why&pokeSoon != 0 {
			follow = soon
		}
		if why == pokeSoon {
			timer.Reset(soon)
			continue
		}
		var pause time.Duration
		var err error
		conn, err = w.look(ctx, conn, why&pokeRead != 0)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.failed(err)
			pause = retry
			retry = min(2*retry, lastRetry)
			switch {
			case !errors.Is(err, errAbsent):
				absent = time.Time{}
			case absent.IsZero():
				absent = time.Now()
			case time.Since(absent) >= w.l.opts.Absent:
				w.leave()
				return
			}
		default:
			w.said, absent = "", time.Time{}
			retry = firstRetry
			pause = w.pause()
		}
		if follow > 0 {
			pause = min(pause, follow)
			if follow *= later; follow > shortestPause {
				follow = 0
			}
		}
		timer.Reset(pause)
	}
}

// pause is the time to the next look that nobody asks for.
func (w *watch) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(shortestPause, share*w.state.cost)
}

// watchConn is a connection and what was last read over it. Only one to the primary is
// kept.
type watchConn struct {
	*serverConn
	fingerprint fingerprint
}

func (c *watchConn) close() {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// look compares the fingerprint, reads what has changed, and gives the connection
// for the next look, nil if there is none.
func (w *watch) look(ctx context.Context, conn *watchConn, read bool) (_ *watchConn, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	begun := time.Now()
	login, reads := w.l.settings()
	if conn != nil && (read || !(conn.primary && login.leads(conn.server))) {
		conn.close() // perhaps there is a primary now, or another one, or another way in
		conn = nil
	}
	if conn == nil {
		c, err := login.connect(ctx, w.database)
		if err != nil {
			w.doubt(begun)
			w.done(begun, 0)
			return nil, err
		}
		conn, read = &watchConn{serverConn: c}, true
	}
	defer func() {
		if err != nil {
			conn.close()
			w.doubt(begun) // who can log in may still be kept from reading
			w.done(begun, 0)
		}
	}()
	start := time.Now()
	if !read {
		now, err := readFingerprint(ctx, conn)
		if err != nil {
			return nil, err
		}
		w.l.opts.Metrics.looks.Inc()
		if now.permanent == conn.fingerprint.permanent {
			w.temporary(now.temporary)
			w.done(begun, time.Since(start))
			return conn, nil
		}
	}
	c, now, err := readContents(ctx, conn.serverConn.Conn)
	if err != nil {
		return nil, err
	}
	conn.fingerprint = now
	cost := time.Since(start)
	next := compile(c, w.bodies, reads).with(now.temporary)
	if w.bodies.missed {
		conn.fingerprint.permanent = "" // read it again
	}
	w.l.opts.Metrics.readSeconds.Observe(time.Since(start).Seconds())
	w.swap(next)
	w.done(begun, cost)
	w.l.seek(w.database, next)
	return conn, nil
}

// temporary takes note of the temporary relations there are.
func (w *watch) temporary(names map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.state.snapshot; s != nil && !maps.Equal(s.temporary, names) {
		w.state.snapshot = s.with(names)
	}
}

// swap makes the new Snapshot the one that is judged by, and then has old verdicts
// dropped.
func (w *watch) swap(next *Snapshot) {
	w.mu.Lock()
	old := w.state.snapshot
	w.state.snapshot = next
	w.mu.Unlock()
	w.l.opts.Metrics.names.WithLabelValues(w.database).Set(float64(next.Size()))
	switch {
	case old == nil:
		// Verdicts without a Snapshot were given for want of knowledge, and by routers
		// and classifiers that ran before this one.
		w.log.Info("the database's catalog is known", "names", next.Size())
		w.l.opts.Changed(w.database)
	case old.Spoils(next):
		w.log.Info("the database's catalog, or what is configured of its functions, has changed; verdicts are dropped")
		w.l.opts.Metrics.flushes.Inc()
		w.l.opts.Changed(w.database)
	}
}

// doubt notes that a look has failed that began then. It gives the Snapshot up if none has
// succeeded for too long. The time since the last good one does not count: a large catalog
// is looked at so rarely that a single failure would cost its Snapshot.
func (w *watch) doubt(begun time.Time) {
	w.mu.Lock()
	if w.state.failing.IsZero() {
		w.state.failing = begun
	}
	stale := time.Since(w.state.failing) >= w.l.opts.Unconfirmed
	w.mu.Unlock()
	if stale && w.giveUp() {
		w.log.Warn("the database's catalog cannot be read any more, verdicts are dropped; reads run on the primary")
	}
}

// giveUp forgets the Snapshot, has the verdicts by it dropped, and reports whether there was
// one.
func (w *watch) giveUp() bool {
	w.mu.Lock()
	known := w.state.snapshot != nil
	w.state.snapshot = nil
	w.mu.Unlock()
	if known {
		w.l.opts.Metrics.flushes.Inc()
		w.l.opts.Changed(w.database)
	}
	return known
}

// leave makes room for another database.
func (w *watch) leave() {
	w.giveUp()
	w.l.forget(w)
	w.log.Debug("the database is gone")
}

// done tells those who wait that there has been a look since begun, which cost the server
// so much time; zero if it failed.
func (w *watch) done(begun time.Time, cost time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cost > 0 {
		w.state.last, w.state.began, w.state.cost, w.state.failing = time.Now(), begun, cost, time.Time{}
	} else {
		w.state.failed = time.Now()
	}
	w.state.tried = true
	close(w.state.looked)
	w.state.looked = make(chan struct{})
}

// failed says what is missing, once.
func (w *watch) failed(err error) {
	w.l.opts.Metrics.failures.Inc()
	if w.said == err.Error() {
		return
	}
	w.said = err.Error()
	login, _ := w.l.settings()
	var pg *pgconn.PgError
	switch errors.As(err, &pg); {
	case errors.Is(err, errAbsent), pg != nil && pg.Code == noDatabase: // the client will be told
		w.log.Debug("no such database", obs.KeyError, err)
	case pg != nil && pg.Code == "42501":
		w.log.Warn(fmt.Sprintf("reads of this database run on the primary: grant the login %q CONNECT on it", login.Monitor.User), obs.KeyError, err)
	case pg != nil && pg.Code[:2] == "28":
		w.log.Warn(fmt.Sprintf("reads of this database run on the primary: let the login %q in with a line in pg_hba.conf", login.Monitor.User), obs.KeyError, err)
	default:
		w.log.Warn("the database's catalog cannot be read", obs.KeyError, err)
	}
}
