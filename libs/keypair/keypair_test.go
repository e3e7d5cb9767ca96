package keypair

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/certtest"
)

func TestLoad(t *testing.T) {
	ca := certtest.NewAuthority(t)
	p := ca.Issue("server", "localhost")
	pair, err := Load(p.CertFile, p.KeyFile)
	if err != nil || !bytes.Equal(pair.Certificate[0], p.TLS.Certificate[0]) || pair.Leaf == nil {
		t.Fatalf("got %v, %v", pair, err)
	}
	if _, err := Roots(ca.File); err != nil {
		t.Error(err)
	}
}

func TestBadFilesAreRefusedInOneSentence(t *testing.T) {
	ca := certtest.NewAuthority(t)
	p, other := ca.Issue("server", "localhost"), ca.Issue("other", "localhost")
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := os.ReadFile(p.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ cert, key, want string }{
		{"/nonexistent", p.KeyFile, "read certificate: open /nonexistent: no such file"},
		{p.CertFile, "/nonexistent", "read key: open /nonexistent: no such file"},
		{p.CertFile, t.TempDir(), "is not a regular file"},
		{p.CertFile, other.KeyFile, "private key does not match public key"},
		{file("empty", "", 0o600), p.KeyFile, "failed to find any PEM data in certificate input"},
		{p.CertFile, file("empty", "", 0o600), "failed to find any PEM data in key input"},
		{p.CertFile, file("world.key", string(key), 0o644), "has group or world access (mode 0644): chmod it to 0600"},
		{p.CertFile, file("locked.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", 0o600), "is protected by a passphrase"},
	} {
		_, err := Load(c.cert, c.key)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %s: got %v; want %q", c.cert, c.key, err, c.want)
		}
	}
	for _, path := range []string{"/nonexistent", file("empty", "", 0o600)} {
		if _, err := Roots(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("authorities of %s: %v", path, err)
		}
	}
}

func TestWhoMayReadAKey(t *testing.T) {
	const me, somebody = 1000, 1001
	for _, c := range []struct {
		mode, owner, self uint32
		ok                bool
	}{
		{0o600, me, me, true}, {0o400, me, me, true}, {0o640, me, me, false}, {0o604, me, me, false},
		{0o600, 0, me, true}, {0o640, 0, me, true}, {0o660, 0, me, false}, {0o644, 0, me, false},
		{0o640, 0, 0, true}, {0o644, 0, 0, false}, {0o600, somebody, me, false}, {0o600, somebody, 0, false},
	} {
		if err := checkAccess("k", unix.S_IFREG|c.mode, c.owner, c.self); (err == nil) != c.ok {
			t.Errorf("mode %o of uid %d for uid %d: %v", c.mode, c.owner, c.self, err)
		}
	}
}
