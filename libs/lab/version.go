package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// InstalledVersion says which PostgreSQL a new lab would run when Options.BinDir is
// empty, as "15.18".
func InstalledVersion(ctx context.Context) (string, error) {
	acc, err := currentAccount()
	if err != nil {
		return "", err
	}
	dir, err := findBinaries(os.Getenv(binEnv), "", debianBins)
	if err != nil {
		return "", err
	}
	if _, err := openBinaries(ctx, dir, acc); err != nil {
		return "", err
	}
	out, err := acc.command(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), "(PostgreSQL) ")
	version, _, _ = strings.Cut(version, " ") // what packagers add
	return version, nil
}
