package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// binEnv names the folder with the services' binaries. A test process makes it
// itself unless it is set.
const binEnv = "PGPILOT_E2E_BIN"

// services are the four of a stack, in the order they are started in.
var services = [...]string{rundir.Lagpoller, rundir.Classifier, rundir.Router, rundir.Listener}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(binEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "pgpilot-e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "create the folder of the binaries:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	for _, s := range services {
		if err := build(s, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := os.Setenv(binEnv, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes a service's binary as it is shipped: without cgo, but for the
// classifier's parser.
func build(service, dir string) error {
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, service), ".")
	cmd.Dir = filepath.Join("..", "services", service)
	cgo := "0"
	if service == rundir.Classifier {
		cgo = "1"
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", service, err, out)
	}
	return nil
}
