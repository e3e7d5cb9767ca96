package rundir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// secrets are what this process goes by, by name. Services sign in at each other with
// them for as long as they run, so one whose file is gone must come back as it was: who
// starts later would make another, and never get in.
type secrets struct {
	mu    sync.Mutex
	known map[string][]byte // guarded by mu
}

// Secret reads the named secret of n random bytes, making it if this is its
// first use. Every service that opens the same directory gets the same bytes.
// Claim.Keep puts one that was removed back, until every service that has it has ended.
func (d *Dir) Secret(name string, n int) ([]byte, error) {
	d.secrets.mu.Lock()
	defer d.secrets.mu.Unlock()
	path := d.Join(name)
	for {
		b, err := os.ReadFile(path)
		if err == nil {
			if len(b) != n {
				return nil, fmt.Errorf("read secret %q: it holds %d bytes instead of %d; stop all services and remove it", path, len(b), n)
			}
			if d.secrets.known == nil {
				d.secrets.known = make(map[string][]byte)
			}
			d.secrets.known[name] = slices.Clone(b)
			return b, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read secret: %w", err)
		}
		b = d.secrets.known[name]
		if b == nil {
			b = make([]byte, n)
			_, _ = rand.Read(b) // never fails (crypto/rand)
		}
		if _, err := d.writeSecret(path, b); err != nil {
			return nil, err
		}
	}
}

// writeSecret publishes a complete secret under its name, and reports whether it did, or
// leaves an existing one alone; link, unlike rename, never replaces what a sibling wrote
// first.
func (d *Dir) writeSecret(path string, b []byte) (published bool, err error) {
	f, err := os.CreateTemp(d.path, "secret-*.new")
	if err != nil {
		return false, fmt.Errorf("create secret: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return false, fmt.Errorf("write secret: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil {
		if errors.Is(err, os.ErrExist) {
			return false, nil
		}
		return false, fmt.Errorf("publish secret: %w", err)
	}
	return true, nil
}

// restoreSecrets puts back what this process knows and nobody has put there.
func (d *Dir) restoreSecrets() (restored bool, err error) {
	d.secrets.mu.Lock()
	defer d.secrets.mu.Unlock()
	for name, b := range d.secrets.known {
		path := d.Join(name)
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		published, err := d.writeSecret(path, b)
		if err != nil {
			return restored, err
		}
		restored = restored || published
	}
	return restored, nil
}
