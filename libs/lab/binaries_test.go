package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installFake makes a folder that looks like a PostgreSQL bin folder.
func installFake(t *testing.T, dir string, programs ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindBinaries(t *testing.T) {
	root := t.TempDir()
	nine := installFake(t, filepath.Join(root, "debian/9/bin"), "postgres", "initdb")
	seventeen := installFake(t, filepath.Join(root, "debian/17/bin"), "postgres", "initdb")
	installFake(t, filepath.Join(root, "debian/18/bin"), "psql") // a client package only
	own := installFake(t, filepath.Join(root, "own"), "postgres", "initdb")
	half := installFake(t, filepath.Join(root, "half"), "postgres")
	onPath := filepath.Join(root, "path")
	if err := os.Mkdir(onPath, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(own, "postgres"), filepath.Join(onPath, "postgres")); err != nil {
		t.Fatal(err)
	}
	debian, nothing := filepath.Join(root, "debian/*/bin"), filepath.Join(root, "nothing/*/bin")

	tests := []struct {
		name                              string
		chosen, recorded, installed, path string
		want, wantErr                     string
	}{
		{name: "newest installed, by number", installed: debian, want: seventeen},
		{name: "chosen before all", chosen: own, recorded: nine, installed: debian, want: own},
		{name: "recorded before newest", recorded: nine, installed: debian, want: nine},
		{name: "recorded is gone", recorded: filepath.Join(root, "gone"), installed: debian, want: seventeen},
		{name: "PATH last, link followed", installed: nothing, path: onPath, want: own},
		{name: "chosen lacks a program", chosen: half, installed: debian, wantErr: `no PostgreSQL program "initdb" in ` + half},
		{name: "nothing anywhere", installed: nothing, wantErr: "no PostgreSQL server is installed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PATH", test.path)
			got, err := findBinaries(test.chosen, test.recorded, test.installed)
			if test.wantErr == "" {
				if err != nil || got != test.want {
					t.Fatalf("got %q, %v, want %q", got, err, test.want)
				}
				return
			}
			if err == nil {
				t.Fatalf("got %q, want an error", got)
			}
			for _, part := range []string{test.wantErr, "make up", "apt-get install postgresql", "PGPILOT_PG_BIN"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}
