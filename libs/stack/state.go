package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// What a stack keeps in its folder.
const (
	stateFile  = "stack.json"
	lockFile   = "stack.lock"
	configFile = "pgpilot.json"
	logFolder  = "logs"
)

// ErrNoStack is returned by [Open] when the folder holds no stack.
var ErrNoStack = errors.New("no stack here")

// state is stack.json: what another process needs to attach.
type state struct {
	BootID string `json:"boot_id"`
	BinDir string `json:"bin_dir"`
	Config string `json:"config"`
	// ConfigWritten says that the stack made the file.
	ConfigWritten bool   `json:"config_written"`
	LogDir        string `json:"log_dir"`
	LogLevel      string `json:"log_level,omitempty"`
	// WorkDir is the services' working folder.
	WorkDir string `json:"work_dir"`
	// RunDir is absolute. Made says that it did not exist before the stack.
	RunDir     string  `json:"run_dir"`
	RunDirMade bool    `json:"run_dir_made"`
	Processes  []entry `json:"processes"`
}

// entry is one process of the stack, with the identity it had when it was last
// started.
type entry struct {
	Service string `json:"service"`
	Number  int    `json:"number"`
	identity
}

func readState(dir string) (state, error) {
	var st state
	path := filepath.Join(dir, stateFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return st, fmt.Errorf("%w: %s does not exist", ErrNoStack, path)
	}
	if err != nil {
		return st, fmt.Errorf("read the stack's state: %w", err)
	}
	if err := json.Unmarshal(data, &st); err != nil {
		return st, fmt.Errorf("read the stack's state in %s, which is damaged and may be removed once its processes are stopped: %w", path, err)
	}
	return st, nil
}

// writeState replaces stack.json in one step, so that a reader never sees half of it.
func writeState(dir string, st state) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the stack's state: %w", err)
	}
	return replaceFile(filepath.Join(dir, stateFile), append(data, '\n'))
}

func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// claim is the lock of a stack's folder: whoever holds it may start, change or
// remove the stack. An owner of processes holds it as long as they live.
type claim struct{ file *os.File }

// claimFolder creates dir if needed and waits for its lock until ctx ends.
func claimFolder(ctx context.Context, dir string) (*claim, error) {
	var held *claim
	err := until(ctx, func() (bool, error) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return false, fmt.Errorf("create the stack's folder: %w", err)
		}
		var err error
		held, err = tryClaim(dir)
		return held != nil, err
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, fmt.Errorf("another process holds the stack in %s, wait for it or stop it: %w", dir, err)
	}
	return held, err
}

// tryClaim returns nil without an error if someone else holds the lock, or has
// removed the file since it was opened: a lock on an unlinked file would exclude
// nobody.
func tryClaim(dir string) (*claim, error) {
	path := filepath.Join(dir, lockFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the stack's lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		mine, err1 := file.Stat()
		current, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, current) {
			return &claim{file: file}, nil
		}
	}
	_ = file.Close()
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, nil
}

func (c *claim) release() { _ = c.file.Close() }
