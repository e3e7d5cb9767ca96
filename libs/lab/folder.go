package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stateFile = "lab.json"
	lockFile  = "lab.lock"
)

// state is lab.json: what another process needs to attach to the lab. It holds the
// superuser's password, hence mode 0600.
type state struct {
	Work          string   `json:"work"` // folder of the members and sockets
	BinDir        string   `json:"bin_dir"`
	Major         int      `json:"major"`
	SuperPassword string   `json:"super_password"`
	FastUnsafe    bool     `json:"fast_unsafe"`
	Primary       int      `json:"primary"` // number of the member last made primary
	Ports         []int    `json:"ports"`   // by member number
	Created       []string `json:"created"` // folders made up to Dir, outermost first
}

// folder is the claim on a lab's Dir: whoever holds it may start, extend or remove the lab.
type folder struct {
	dir     string
	created []string
	lock    *os.File
}

// claimFolder creates dir if needed and waits for its lock until ctx ends.
func claimFolder(ctx context.Context, dir string) (*folder, error) {
	f := &folder{dir: dir}
	err := until(ctx, 20*time.Millisecond, func() (bool, error) {
		created, err := makeDirs(dir)
		f.created = append(f.created, created...)
		if err != nil {
			return false, err
		}
		f.lock, err = tryLock(filepath.Join(dir, lockFile))
		return f.lock != nil, err
	})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("another process holds the lab in %s: wait for it, or stop it: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// tryLock returns nil without an error if someone else holds the lock, or has removed the
// file since it was opened: a lock on an unlinked file would exclude nobody.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the lab's lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		mine, err1 := file.Stat()
		current, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, current) {
			return file, nil
		}
	}
	_ = file.Close()
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, nil
}

// makeDirs is MkdirAll that says which folders it made. They are private: the state holds a password.
func makeDirs(dir string) (created []string, err error) {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a folder: choose another one for the lab", dir)
		}
		return nil, nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if created, err = makeDirs(parent); err != nil {
			return created, err
		}
	}
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		return append(created, dir), nil
	case errors.Is(err, fs.ErrExist):
		return created, nil
	default:
		return created, fmt.Errorf("create the lab's folder: %w", err)
	}
}

// refuseForeign keeps the lab out of folders that hold something else.
func (f *folder) refuseForeign() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("read the lab's folder: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() != lockFile {
			return fmt.Errorf("%s holds other files (%s): choose an empty or a new folder for the lab", f.dir, entry.Name())
		}
	}
	return nil
}

func readState(dir string) (state, error) {
	var st state
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return st, fmt.Errorf(`%w: %s holds none, start one with "lab up"`, ErrNoCluster, dir)
	}
	if err != nil {
		return st, fmt.Errorf("read the lab's state: %w", err)
	}
	if err := json.Unmarshal(data, &st); err != nil {
		return st, fmt.Errorf("read the lab's state in %s: %w", dir, err)
	}
	if len(st.Ports) == 0 || st.Work == "" || st.Primary < 0 || st.Primary >= len(st.Ports) {
		return st, fmt.Errorf("the lab's state in %s is damaged: remove the folder and what it names by hand", filepath.Join(dir, stateFile))
	}
	return st, nil
}

// writeState replaces lab.json in one step, so that a reader never sees half of it.
func writeState(dir string, st state) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the lab's state: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the lab's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replace the lab's state: %w", err)
	}
	return nil
}

func (f *folder) release() { _ = f.lock.Close() }

// remove gives up the claim and deletes the lab's own files, its folder, and the folders
// made to hold that, as far as nothing else is in them.
func (f *folder) remove() error {
	var failed []error
	for _, name := range []string{stateFile, stateFile + ".new", lockFile} {
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("remove the lab's files: %w", err))
		}
	}
	emptied := os.Remove(f.dir) == nil
	for i := len(f.created) - 1; i >= 0 && emptied; i-- {
		if f.created[i] != f.dir {
			emptied = os.Remove(f.created[i]) == nil
		}
	}
	f.release()
	return errors.Join(failed...)
}
