package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxExposure is what systemd-analyze security may find at most, in tenths: from 0, a
// service that can do nothing, to 100. Reaching servers and clients takes some 14.
const maxExposure = "20"

// installed copies the units, with the programs in a folder where there are some.
func installed(t *testing.T) (dir string, units []string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze, which checks units, is not on this machine: install systemd")
	}
	dir = t.TempDir()
	bin := filepath.Join(dir, "bin")
	for _, program := range []string{"listener", "router", "classifier", "lagpoller"} {
		write(t, filepath.Join(bin, program), "#!/bin/sh\n", 0o755)
	}
	paths, err := filepath.Glob("pgpilot*.*")
	if err != nil {
		t.Fatal(err)
	}
	dropins, err := filepath.Glob("pgpilot-.service.d/*.conf")
	if err != nil || len(dropins) == 0 {
		t.Fatalf("drop-ins: %v, %v", dropins, err)
	}
	for _, path := range append(paths, dropins...) {
		if st, err := os.Stat(path); err != nil || st.IsDir() {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, path), strings.ReplaceAll(string(text), "/usr/lib/pgpilot/", bin+"/"), 0o644)
	}
	for _, path := range paths {
		switch unit := strings.Replace(path, "@.", "@1.", 1); filepath.Ext(path) {
		case ".service", ".socket", ".target":
			units = append(units, unit)
		}
	}
	if len(units) != 6 {
		t.Fatalf("units: %v; want four services, a socket and a target", units)
	}
	return dir, units
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// analyze runs systemd-analyze on the units of dir, before those of this machine.
func analyze(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
	cmd.Dir = dir // a name is first taken for a file here
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestUnitsAreRight(t *testing.T) {
	dir, units := installed(t)
	said, err := analyze(t, dir, append([]string{"verify", "--man=no"}, units...)...)
	if err != nil {
		t.Errorf("systemd-analyze verify: %v\n%s", err, said)
	}
	for line := range strings.Lines(said) { // of other units on this machine it may say anything
		if strings.Contains(line, "pgpilot") {
			t.Error(line)
		}
	}
}

// A misspelt setting is only a warning for systemd; the test above must see it.
func TestAWrongSettingIsNoticed(t *testing.T) {
	dir, units := installed(t)
	write(t, filepath.Join(dir, "pgpilot-.service.d/99-wrong.conf"), "[Service]\nProtectSytem=strict\n", 0o644)
	said, _ := analyze(t, dir, append([]string{"verify", "--man=no"}, units...)...)
	if !strings.Contains(said, "ProtectSytem") || !strings.Contains(said, "pgpilot") {
		t.Errorf("systemd-analyze verify says nothing of it:\n%s", said)
	}
}

func TestServicesAreConfined(t *testing.T) {
	dir, units := installed(t)
	for _, unit := range units {
		if !strings.HasSuffix(unit, ".service") {
			continue
		}
		said, err := analyze(t, dir, "security", "--offline=true", "--no-pager", "--threshold="+maxExposure, unit)
		if err != nil {
			t.Errorf("%s: %v\n%s", unit, err, said)
		}
	}
}

func TestUserIsMade(t *testing.T) {
	if _, err := exec.LookPath("systemd-sysusers"); err != nil {
		t.Skip("systemd-sysusers is not on this machine: install systemd")
	}
	root := t.TempDir()
	file, err := filepath.Abs("sysusers.conf")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "usr/lib/sysusers.d/pgpilot.conf"), string(text), 0o644)
	write(t, filepath.Join(root, "etc/passwd"), "", 0o644)
	write(t, filepath.Join(root, "etc/group"), "", 0o644)
	if out, err := exec.CommandContext(t.Context(), "systemd-sysusers", "--root="+root).CombinedOutput(); err != nil {
		t.Fatalf("systemd-sysusers: %v\n%s", err, out)
	}
	passwd, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil || !strings.HasPrefix(string(passwd), "pgpilot:") {
		t.Errorf("users: %q, %v", passwd, err)
	}
}

// A port that is taken for a while must not end a service for good, and neither must a panic,
// which ends a Go program with 2. Only a configuration that is refused does.
func TestOnlyARefusedConfigurationEndsAService(t *testing.T) {
	text, err := os.ReadFile("pgpilot-.service.d/10-common.conf")
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			settings[key] = value
		}
	}
	for key, want := range map[string]string{"StartLimitIntervalSec": "0", "StartLimitBurst": "", "Restart": "always", "RestartPreventExitStatus": "78"} {
		if settings[key] != want {
			t.Errorf("%s=%s, want %q", key, settings[key], want)
		}
	}
}
