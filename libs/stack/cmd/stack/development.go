package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// replicas of the local cluster.
const replicas = 2

// maxRunDir is the longest path of a run directory, in bytes (docs/config.md).
const maxRunDir = 69

// development is the configuration for the local cluster, as generated.
func (cmd command) development() []byte {
	var servers []string
	for n := 1; n <= replicas; n++ {
		servers = append(servers, fmt.Sprintf(`{"name": "replica%d", "address": "127.0.0.1:%d"}`, n, cmd.labPort+n))
	}
	return fmt.Appendf(nil, `{
  "run_dir": %q,
  "listen": "localhost:6432",
  "primary": {"name": "primary", "address": "127.0.0.1:%d"},
  "replicas": [
    %s
  ],
  "users": [{"name": %q, "password": %q}],
  "bus": {"listen": "localhost:4222"},
  "observability": {"metrics_addr": "localhost:9090", "pprof": true}
}
`, cmd.runDir(), cmd.labPort, strings.Join(servers, ",\n    "), lab.User, lab.Password)
}

// runDir is the run directory of a generated configuration: below the folder unless
// a socket's path would be too long.
func (cmd command) runDir() string {
	dir := filepath.Join(cmd.dir, "run")
	if len(dir) <= maxRunDir {
		return dir
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("pgpilot-%x", sha256.Sum256([]byte(cmd.dir)))[:24])
}

func (cmd command) developmentFile() string { return filepath.Join(cmd.dir, "pgpilot.json") }

// writeDevelopment generates the configuration unless there is one.
func (cmd command) writeDevelopment() error {
	if _, err := os.Stat(cmd.developmentFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(cmd.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	if err := os.WriteFile(cmd.developmentFile(), cmd.development(), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// removeDevelopment removes a generated configuration, and keeps one that was edited.
func (cmd command) removeDevelopment() error {
	data, err := os.ReadFile(cmd.developmentFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if !bytes.Equal(data, cmd.development()) {
		cmd.printf("kept %s, since it was edited\n", cmd.developmentFile())
		return nil
	}
	if err := os.Remove(cmd.developmentFile()); err != nil {
		return fmt.Errorf("remove the configuration: %w", err)
	}
	return nil
}
