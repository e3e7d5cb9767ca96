package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Entry is one text in quarantine.
type Entry struct {
	// Key is the template key, Text the SHA-256 of the text, both hexadecimal.
	Key  string `json:"key"`
	Text string `json:"text_sha256"`
	// Database is the one it was meant for.
	Database string `json:"database"`
	// Cause is how the parser process ended: crash, hang or memory.
	Cause string `json:"cause"`
	// At is when that was, Ends when the entry stops to hold; wall clock, UTC.
	At   time.Time `json:"at"`
	Ends time.Time `json:"ends"`
}

// document is the file.
type document struct {
	V int `json:"v"`
	// Repaired is when it was last found damaged and written anew: what others know to have
	// been in it may be missing.
	Repaired time.Time `json:"repaired,omitzero"`
	Entries  []Entry   `json:"entries"`
}

const fileVersion = 1

// maxFile bounds what is read. The file of the default size has less than half a
// megabyte.
const maxFile = 16 << 20

// load reads the file. Of one that is damaged it gives the entries that are whole, and an
// error.
func load(path string) (document, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return document{}, nil
	case err != nil:
		return document{}, fmt.Errorf("read the quarantine: %w", err)
	case !info.Mode().IsRegular():
		return document{}, fmt.Errorf("read the quarantine: %s is no file (%v): remove it", path, info.Mode().Type())
	case info.Size() > maxFile:
		return document{}, fmt.Errorf("read the quarantine: %d bytes are more than it ever holds", info.Size())
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return document{}, nil
	}
	if err != nil {
		return document{}, fmt.Errorf("read the quarantine: %w", err)
	}
	var d document
	err = json.Unmarshal(b, &d)
	if err == nil && d.V != fileVersion {
		err = fmt.Errorf("it is of version %d, this build knows %d", d.V, fileVersion)
	}
	if err == nil && slices.ContainsFunc(d.Entries, func(e Entry) bool { return !e.whole() }) {
		err = errors.New("an entry lacks its key, its text or its end")
	}
	if err != nil {
		return document{Entries: salvage(b)}, fmt.Errorf("read the quarantine: %w", err)
	}
	return d, nil
}

// change replaces the file, whose entries no sibling changes meanwhile. Of one that was
// damaged the entries that are whole are edited; repaired is called then, with the error if it
// could not be kept beside the new one.
func change(path string, now time.Time, edit func([]Entry) []Entry, repaired func(lost error)) error {
	unlock, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	var lost error
	d, damage := load(path)
	if damage != nil {
		lost = setAside(path)
		d.Repaired = now
	}
	d.V, d.Entries = fileVersion, edit(d.Entries)
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("write the quarantine: %w", err)
	}
	// Under the lock there is one writer, so one temporary name is enough, and what a
	// crash leaves of it is written over.
	if err := replace(path, path+".new", b); err != nil {
		return fmt.Errorf("write the quarantine: %w", err)
	}
	if damage != nil {
		repaired(lost)
	}
	return nil
}

// replace writes a file under a temporary name and then gives it its own.
func replace(path, temporary string, b []byte) error {
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // it takes space on what may be a full disk
	}
	return err
}

// lockPatience is how long a sibling may hold the lock: it is done in milliseconds, unless it
// has been stopped.
const lockPatience = 10 * time.Second

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the quarantine: %w", err)
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil // and with it the lock
		}
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("lock the quarantine, which another process has had for %v: %w", lockPatience, err)
		}
	}
}

// current are the entries that hold.
func current(entries []Entry, now time.Time) []Entry {
	var out []Entry
	for _, e := range entries {
		if now.Before(e.Ends) {
			out = append(out, e)
		}
	}
	return out
}

// newest are the last n.
func newest(entries []Entry, n int) []Entry { return entries[max(0, len(entries)-n):] }

// without gives the entries of a list that are not in another.
func without(list, those []Entry) []Entry {
	have := make(map[Entry]bool, len(those))
	for _, e := range those {
		have[e] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(e Entry) bool { return have[e] })
}

// merge gives the entries of both lists in the order in which they came, at most the n
// newest.
func merge(a, b []Entry, n int) []Entry {
	out := slices.Concat(a, without(b, a))
	slices.SortStableFunc(out, func(a, b Entry) int { return a.At.Compare(b.At) })
	return newest(out, n)
}
