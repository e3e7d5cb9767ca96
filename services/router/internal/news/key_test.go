package news

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// Routers that share a run directory, or a secret, know a statement by the same key, and no
// others do.
func TestTemplateKeysAreShared(t *testing.T) {
	here, there := hostDir(t), hostDir(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, bytes.Repeat([]byte("0123456789abcdef"), 4), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, bytes.Repeat([]byte("fedcba9876543210"), 4), 0o600); err != nil {
		t.Fatal(err)
	}
	key := func(dir *rundir.Dir, file string) sqltoken.Key {
		t.Helper()
		k, err := TemplateKey(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sqltoken.NewScanner(k).Scan([]byte("SELECT 1"), &sqltoken.Options{Context: sqltoken.NewContext(k, "app")})
		if err != nil {
			t.Fatal(err)
		}
		return r.Key
	}
	for name, c := range map[string]struct {
		a, b sqltoken.Key
		same bool
	}{
		"one run directory":           {key(here, ""), key(here, ""), true},
		"two run directories":         {key(here, ""), key(there, ""), false},
		"two with one secret":         {key(here, secret), key(there, secret), true},
		"two with a secret each":      {key(here, secret), key(there, other), false},
		"with a secret, and without":  {key(here, secret), key(here, ""), false},
		"the same, of one before now": {key(here, secret), key(here, secret), true},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%s: the same key is %v, want %v", name, c.a == c.b, c.same)
		}
	}
	if _, err := TemplateKey(here, filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a secret that is missing is no error")
	}
}

func hostDir(t *testing.T) *rundir.Dir {
	t.Helper()
	d, err := rundir.Open(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
