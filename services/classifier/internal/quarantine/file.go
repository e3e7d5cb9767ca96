package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	V       int     `json:"v"`
	Entries []Entry `json:"entries"`
}

const fileVersion = 1

// maxFile bounds what is read. The file of the default size has less than half a
// megabyte.
const maxFile = 16 << 20

func load(path string) ([]Entry, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read the quarantine: %d bytes are more than it ever holds", info.Size())
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", err)
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", err)
	}
	if d.V != fileVersion {
		return nil, fmt.Errorf("read the quarantine: it is of version %d, this build knows %d", d.V, fileVersion)
	}
	return d.Entries, nil
}

// change replaces the file, whose entries no sibling changes meanwhile. One that
// cannot be read is replaced too: its entries are lost, and learnt again.
func change(path string, edit func([]Entry) []Entry) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the quarantine: %w", err)
	}
	defer lock.Close() // and with it the lock
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock the quarantine: %w", err)
	}
	entries, err := load(path)
	if err != nil {
		entries = nil
	}
	b, err := json.MarshalIndent(document{V: fileVersion, Entries: edit(entries)}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the quarantine: %w", err)
	}
	// Under the lock there is one writer, so one temporary name is enough, and what a
	// crash leaves of it is written over.
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("write the quarantine: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the quarantine: %w", err)
	}
	return nil
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
