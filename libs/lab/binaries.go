package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// binEnv selects another version's programs for the command and for tests.
const binEnv = "PGPILOT_PG_BIN"

// debianBins is where Debian and Ubuntu install each major version's programs.
const debianBins = "/usr/lib/postgresql/*/bin"

// The oldest version whose BASE_BACKUP speaks the protocol basebackup.go reads.
const oldestMajor = 15

const installHint = `run "make up" or "apt-get install postgresql", or set ` + binEnv +
	" to the folder that holds another version's postgres and initdb"

// binaries is one PostgreSQL installation.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// findBinaries returns chosen if it is set, else recorded (what an existing lab was
// last started with) if it is still there, else the newest installed version.
func findBinaries(chosen, recorded, installed string) (string, error) {
	if chosen != "" {
		dir, err := filepath.Abs(chosen)
		if err != nil {
			return "", fmt.Errorf("find the PostgreSQL programs: %w", err)
		}
		if missing := missingProgram(dir); missing != "" {
			return "", fmt.Errorf("no PostgreSQL program %q in %s: %s", missing, dir, installHint)
		}
		return dir, nil
	}
	if recorded != "" && missingProgram(recorded) == "" {
		return recorded, nil
	}
	found, err := filepath.Glob(installed)
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL programs in %s: %w", installed, err)
	}
	newest, newestMajor := "", 0
	for _, dir := range found {
		major, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && major > newestMajor && missingProgram(dir) == "" {
			newest, newestMajor = dir, major
		}
	}
	if newest != "" {
		return newest, nil
	}
	if program, err := exec.LookPath("postgres"); err == nil {
		// PATH usually holds a link into the installation, with or without one for initdb.
		if real, err := filepath.EvalSymlinks(program); err == nil && missingProgram(filepath.Dir(real)) == "" {
			return filepath.Dir(real), nil
		}
	}
	return "", fmt.Errorf("no PostgreSQL server is installed: %s", installHint)
}

func missingProgram(dir string) string {
	for _, program := range []string{"postgres", "initdb"} {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return program
		}
	}
	return ""
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// openBinaries runs the server program as the account that will run it for good, so
// that a folder it can not enter and a broken installation are found before
// anything is created.
func openBinaries(ctx context.Context, dir string, acc account) (binaries, error) {
	cmd := acc.command(ctx, filepath.Join(dir, "postgres"), "--version")
	out, err := cmd.CombinedOutput()
	if os.IsPermission(err) {
		return binaries{}, fmt.Errorf("the OS user %s, who runs the servers, may not run the programs in %s: "+
			"install them where every user can reach them", acc.name, dir)
	}
	text := strings.TrimSpace(string(out))
	if err != nil {
		return binaries{}, fmt.Errorf("run %s: %w: %s", cmd.Path, err, text)
	}
	match := versionPattern.FindStringSubmatch(text)
	if match == nil {
		return binaries{}, fmt.Errorf("%s does not say its version but %q: set %s to a PostgreSQL bin folder", cmd.Path, text, binEnv)
	}
	major, err := strconv.Atoi(match[1])
	if err != nil {
		return binaries{}, fmt.Errorf("read the version of %s: %w", cmd.Path, err)
	}
	if major < oldestMajor {
		return binaries{}, fmt.Errorf("PostgreSQL %d in %s is too old, the lab needs %d or newer: %s", major, dir, oldestMajor, installHint)
	}
	return binaries{dir: dir, major: major}, nil
}
