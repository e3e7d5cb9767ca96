package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack"
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

// writeDevelopment generates the configuration unless there is one. One that was
// generated for other ports is made anew if nothing runs with it.
func (cmd command) writeDevelopment() error {
	have, err := os.ReadFile(cmd.developmentFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the configuration: %w", err)
	case !cmd.generated(have) || !cmd.nothingThere():
		return nil
	}
	if err := os.MkdirAll(cmd.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	if err := os.WriteFile(cmd.developmentFile(), cmd.development(), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// chooseLabPort takes, unless it was told a port, that of what is there: a local cluster
// keeps its ports, and an edited configuration names them.
func (cmd *command) chooseLabPort() {
	if cmd.labPort != 0 {
		return
	}
	cmd.labPort = lab.DefaultPort
	if c, err := lab.Open(cmd.labDir()); err == nil {
		cmd.labPort = c.Members()[0].Port
	} else if data, err := os.ReadFile(cmd.developmentFile()); err == nil && !cmd.generated(data) {
		if port := primaryPort(data); port != 0 {
			cmd.labPort = port
		}
	}
}

// generated says whether a configuration is as writeDevelopment made it, for whichever
// ports.
func (cmd command) generated(data []byte) bool {
	cmd.labPort = primaryPort(data)
	return bytes.Equal(data, cmd.development())
}

// primaryPort gives the port of a configuration's primary on this machine, or 0.
func primaryPort(data []byte) int {
	cfg, err := config.Parse(data, "")
	if err != nil {
		return 0
	}
	host, number, err := net.SplitHostPort(cfg.Primary.Address)
	if err != nil || host != "127.0.0.1" {
		return 0
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return port
}

// nothingThere says whether there is neither a stack nor a local cluster.
func (cmd command) nothingThere() bool {
	_, stackErr := stack.Open(cmd.dir)
	_, labErr := lab.Open(cmd.labDir())
	return errors.Is(stackErr, stack.ErrNoStack) && errors.Is(labErr, lab.ErrNoCluster)
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
	if !cmd.generated(data) {
		cmd.printf("kept %s, since it was edited\n", cmd.developmentFile())
		return nil
	}
	if err := os.Remove(cmd.developmentFile()); err != nil {
		return fmt.Errorf("remove the configuration: %w", err)
	}
	return nil
}
