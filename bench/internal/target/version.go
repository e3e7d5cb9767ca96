package target

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"

	"github.com/pgpilot/pgpilot/libs/lab"
)

// Programs of other products.
const (
	bouncerProgram = "pgbouncer"
	pgpoolProgram  = "pgpool"
)

// Versions names the versions of what is compared with pgpilot.
func Versions(ctx context.Context) (map[string]string, error) {
	postgres, err := lab.InstalledVersion(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{"PostgreSQL": postgres}
	for product, program := range map[string]string{"PgBouncer": bouncerProgram, "pgpool-II": pgpoolProgram} {
		if path := find(program); path != "" {
			versions[product] = versionOf(ctx, path)
		}
	}
	return versions, nil
}

// versionOf asks a program for its version. Empty: it did not say one.
func versionOf(ctx context.Context, program string) string {
	// pgpool exits with a failure when asked.
	out, _ := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	return regexp.MustCompile(`\d+(\.\d+)+`).FindString(string(out))
}

// atLeast compares a version's first two numbers.
func atLeast(version string, major, minor int) bool {
	var a, b int
	if n, err := fmt.Sscanf(version, "%d.%d", &a, &b); n < 2 || err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}
