package quarantine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// FileName of the quarantine in the run directory.
const FileName = "classifier.quarantine"

// Defaults of Options.
const (
	DefaultMost = 1000
	DefaultKeep = 24 * time.Hour
)

// Options of a Quarantine.
type Options struct {
	// Path of the file. Beside it a lock file is made.
	Path string
	// Most is the number of entries kept.
	Most int
	// Keep is how long an entry lasts.
	Keep time.Duration
	// Now is the clock; time.Now outside tests. The file's times are compared with it
	// after restarts, so it is the wall clock.
	Now     func() time.Time
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Quarantine is one classifier's view of the file. It is safe for concurrent use.
type Quarantine struct {
	opts Options
	held prometheus.Counter

	mu    sync.Mutex
	state state // guarded by mu
}

type state struct {
	// read is what the file was like when it was last read; nil if there was none. damaged
	// is set if not all of it could be read, repaired is when the file had been, last.
	read     os.FileInfo
	damaged  bool
	repaired time.Time
	// saved are the file's entries, oldest first; unsaved those that are not in it, but
	// were, or should be: they hold here alone until Watch has written them.
	saved, unsaved []Entry
	// keys and texts say when the entry of a template key or a text's hash ends.
	keys, texts map[string]time.Time
	// watched has every entry seen whose end Watch has not told yet, by template key.
	watched map[string]watched
	// toTell are the databases of entries that have ended since told, which is when Watch
	// told of such last.
	toTell map[string]bool
	told   time.Time
	// said is the last complaint about writing.
	said string
}

// Open reads the file, which need not be there.
func Open(o Options) (*Quarantine, error) {
	q := &Quarantine{opts: o, state: state{watched: make(map[string]watched), toTell: make(map[string]bool)}, held: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pgpilot_classifier_quarantine_hits_total",
		Help: "Statements that were not parsed because they are in quarantine; each is a write.",
	})}
	entries := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgpilot_classifier_quarantine_entries",
		Help: "Statements in quarantine because they ended a parser process.",
	}, func() float64 { return float64(q.Len()) })
	for _, c := range []prometheus.Collector{q.held, entries} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register the quarantine's metrics: %w", err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refreshLocked()
	return q, nil
}

// Len is the number of entries that hold.
func (q *Quarantine) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refreshLocked()
	return len(current(q.entriesLocked(), q.opts.Now()))
}

// Holds reports whether the text must not be parsed. A sibling's entries count
// from the moment it has written them.
func (q *Quarantine) Holds(key sqltoken.Key, text string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refreshLocked()
	if len(q.state.keys) == 0 {
		return false
	}
	now := q.opts.Now()
	holds := now.Before(q.state.keys[hex.EncodeToString(key[:])]) || now.Before(q.state.texts[hash(text)])
	if holds {
		q.held.Inc()
	}
	return holds
}

// Add takes in a text that ended a parser process by cause. If that cannot be
// written it holds in this process only until Watch has written it, and the error says why.
func (q *Quarantine) Add(database string, key sqltoken.Key, text, cause string) error {
	now := q.opts.Now().UTC().Round(0) // as it is read again
	e := Entry{Key: hex.EncodeToString(key[:]), Text: hash(text), Database: database, Cause: cause,
		At: now, Ends: now.Add(q.opts.Keep)}
	err := q.write([]Entry{e})
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.state.unsaved = newest(append(q.state.unsaved, e), q.opts.Most)
		q.indexLocked()
		return err
	}
	q.refreshLocked()
	return nil
}

// refreshLocked reads the file if it has changed. It is replaced, never written
// to, so one that has changed is another file.
func (q *Quarantine) refreshLocked() {
	s := &q.state
	info, err := os.Stat(q.opts.Path)
	if err != nil {
		info = nil
	}
	if s.keys != nil && same(info, s.read) {
		return
	}
	var d document
	switch {
	case err == nil:
		d, err = load(q.opts.Path)
	case errors.Is(err, os.ErrNotExist):
		err = nil
		if s.read != nil && !s.damaged {
			s.saved, s.unsaved = nil, nil // whoever removes the file means all of it
		}
	}
	now := q.opts.Now()
	mended := !d.Repaired.IsZero() && !d.Repaired.Equal(s.repaired)
	if err != nil || s.damaged || mended {
		// What was in the file, and may not be any more, is to be in it again.
		s.unsaved = merge(current(q.entriesLocked(), now), current(d.Entries, now), q.opts.Most)
	}
	if err != nil {
		q.opts.Log.Error("the quarantine is damaged; what is known of it holds, and the file is written anew",
			obs.KeyPath, q.opts.Path, "entries", len(s.unsaved), obs.KeyError, err)
		d.Entries = nil
	}
	s.read, s.damaged, s.repaired, s.saved = info, err != nil, d.Repaired, d.Entries
	s.unsaved = without(s.unsaved, s.saved)
	q.indexLocked()
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (q *Quarantine) entriesLocked() []Entry {
	return append(q.state.saved[:len(q.state.saved):len(q.state.saved)], q.state.unsaved...)
}

func (q *Quarantine) indexLocked() {
	q.state.keys, q.state.texts = make(map[string]time.Time), make(map[string]time.Time)
	for _, e := range q.entriesLocked() {
		if !e.Ends.Before(q.state.keys[e.Key]) {
			q.state.keys[e.Key] = e.Ends
			q.state.watched[e.Key] = watched{e.Database, e.Ends}
		}
		if !e.Ends.Before(q.state.texts[e.Text]) {
			q.state.texts[e.Text] = e.Ends
		}
	}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
