package quarantine

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// DamagedSuffix is what the name of a file ends with that was damaged, and has been replaced.
const DamagedSuffix = ".damaged"

// write brings entries into the file, and mends one that is damaged.
func (q *Quarantine) write(entries []Entry) error {
	now := q.opts.Now().UTC()
	return change(q.opts.Path, now, func(old []Entry) []Entry {
		return merge(current(old, now), current(entries, now), q.opts.Most)
	}, func(lost error) {
		const said = "the quarantine was damaged and has been written anew; a statement that only the damaged file had may end a parser process once more"
		if lost != nil {
			q.opts.Log.Warn(said, obs.KeyPath, q.opts.Path, obs.KeyError, lost)
			return
		}
		q.opts.Log.Warn(said, obs.KeyPath, q.opts.Path, "damaged", q.opts.Path+DamagedSuffix)
	})
}

// save writes what is not in the file and should be. Until that is done it is tried again
// with each look; the log says once why it is not.
func (q *Quarantine) save() {
	q.mu.Lock()
	q.refreshLocked()
	entries, needed := q.state.unsaved, q.state.damaged || len(q.state.unsaved) > 0
	q.mu.Unlock()
	if !needed {
		return
	}
	err := q.write(entries)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err == nil:
		q.state.unsaved, q.state.damaged, q.state.said = without(q.state.unsaved, entries), false, ""
		q.refreshLocked()
	case q.state.said != err.Error():
		q.state.said = err.Error()
		q.opts.Log.Error("statements are in quarantine in this classifier only, trying again; see that the file can be written and that there is space",
			obs.KeyPath, q.opts.Path, "entries", len(entries), obs.KeyError, err)
	}
}

// setAside keeps a damaged file under another name too. There is one at its own name all the
// time: that there is none would mean that it has been cleared.
func setAside(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil // that it is in the way is said where it is replaced
	}
	aside := path + DamagedSuffix
	if err := os.Remove(aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keep the damaged quarantine: %w", err)
	}
	if err := os.Link(path, aside); err != nil {
		return fmt.Errorf("keep the damaged quarantine: %w", err)
	}
	return nil
}

// maxEntry is more than any entry takes in the file.
const maxEntry = 4 << 10

// salvage gives the entries that are whole in what is left of a file.
func salvage(b []byte) []Entry {
	var out []Entry
	for {
		i := bytes.IndexByte(b, '{')
		if i < 0 {
			return out
		}
		b = b[i:]
		var e Entry
		d := json.NewDecoder(bytes.NewReader(b[:min(len(b), maxEntry)]))
		if err := d.Decode(&e); err != nil || !e.whole() {
			b = b[1:]
			continue
		}
		out = append(out, e)
		b = b[d.InputOffset():]
	}
}

// whole reports whether there is all that an entry needs in order to hold.
func (e *Entry) whole() bool {
	key, err := hex.DecodeString(e.Key)
	text, err2 := hex.DecodeString(e.Text)
	return errors.Join(err, err2) == nil && len(key) > 0 && len(text) > 0 && !e.Ends.IsZero()
}
