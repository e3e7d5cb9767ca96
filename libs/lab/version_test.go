package lab

import (
	"regexp"
	"testing"
)

func TestInstalledVersion(t *testing.T) {
	version, err := InstalledVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^\d+(\.\d+|beta\d+|rc\d+)$`).MatchString(version) {
		t.Errorf("the version is %q", version)
	}
}
