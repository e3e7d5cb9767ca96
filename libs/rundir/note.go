package rundir

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Note is what a running instance tells the others of its service, such as where it
// can be reached beside its socket.
type Note struct{ ID, Text string }

func (d *Dir) note(service, id string) string { return d.Join(service + "." + id + ".note") }

// Note leaves a text for the other instances of the service, in place of the one
// before. It is there until Close, and counts for as long as the instance runs.
func (c *Claim) Note(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note = text
	return c.writeNoteLocked()
}

// writeNoteLocked puts the text under its name as a whole: whoever reads it while it
// changes gets the old one or the new one.
func (c *Claim) writeNoteLocked() error {
	path := c.dir.note(c.service, c.id)
	if err := os.WriteFile(path+temporary, []byte(c.note), 0o600); err != nil {
		return fmt.Errorf("leave a note: %w", err)
	}
	if err := os.Rename(path+temporary, path); err != nil {
		return fmt.Errorf("leave a note: %w", err)
	}
	return nil
}

// restoreNoteLocked leaves the note again if somebody has removed it.
func (c *Claim) restoreNoteLocked() (restored bool, err error) {
	if c.note == "" {
		return false, nil
	}
	if _, err := os.Lstat(c.dir.note(c.service, c.id)); !errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return true, c.writeNoteLocked()
}

// Notes gives what the running instances of a service have left, this one's included.
func (d *Dir) Notes(service string) ([]Note, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list run_dir: %w", err)
	}
	var out []Note
	for _, e := range entries {
		id, ok := strings.CutSuffix(strings.TrimPrefix(e.Name(), service+"."), ".note")
		if !ok || e.Name() != service+"."+id+".note" || !idPattern.MatchString(id) || !d.alive(service, id) {
			continue
		}
		text, err := os.ReadFile(d.note(service, id))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just ended
		}
		if err != nil {
			return nil, fmt.Errorf("read a note: %w", err)
		}
		out = append(out, Note{ID: id, Text: string(text)})
	}
	return out, nil
}
