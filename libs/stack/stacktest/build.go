package stacktest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// binEnv names a folder of programs to use instead of building them.
const binEnv = "PGPILOT_BIN"

// programs builds once per test process. The state is the process's, as the build
// is.
var programs = sync.OnceValues(build)

// Programs returns the folder of the four programs, built from the checkout that the
// test's working folder is in, or the one that PGPILOT_BIN names.
func Programs(t testing.TB) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// build builds into a folder that all test processes of one checkout share, where
// programs that are up to date are not linked again. A process that runs is not
// disturbed: the go command puts a new file in the place of the old one.
func build() (string, error) {
	if dir := os.Getenv(binEnv); dir != "" {
		return dir, nil
	}
	root, err := findRoot()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), "pgpilot-cache-"+strconv.Itoa(os.Getuid()))
	}
	dir := filepath.Join(cache, "pgpilot-stacktest", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:12])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the folder of the programs: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("open the lock of the programs: %w", err)
	}
	defer lock.Close()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return "", fmt.Errorf("lock the programs: %w", err)
		}
	}
	for _, service := range []string{rundir.Listener, rundir.Router, rundir.Classifier, rundir.Lagpoller} {
		if err := buildService(root, dir, service); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// buildService builds as make build does; the classifier alone needs cgo.
func buildService(root, dir, service string) error {
	cgo := "CGO_ENABLED=0"
	if service == rundir.Classifier {
		cgo = "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, service), ".")
	cmd.Dir = filepath.Join(root, "services", service)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the %s: %w\n%s", service, err, out)
	}
	return nil
}

// findRoot looks for the checkout above the working folder, which for a test is its
// package's.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "services", rundir.Router, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no folder above %s is a checkout of pgpilot: run the test inside one", start)
		}
	}
}
