package rundir

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"
)

// Who starts after the directory was removed gets the secrets of those who run: with others
// they would refuse each other for ever.
func TestSecretsComeBackAsTheyWere(t *testing.T) {
	for name, remove := range map[string]func(d *Dir) error{
		"everything": func(d *Dir) error { return os.RemoveAll(d.path) },
		"one":        func(d *Dir) error { return os.Remove(d.Join("bus.secret")) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			c, err := d.Claim(Router, "1")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			was := map[string][]byte{}
			for name, n := range map[string]int{"bus.secret": 32, "host.id": 4} {
				if was[name], err = d.Secret(name, n); err != nil {
					t.Fatal(err)
				}
			}
			keep(t, c)
			if err := remove(d); err != nil {
				t.Fatal(err)
			}
			for name, want := range was {
				var b []byte
				for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) { // between two looks
					if b, err = os.ReadFile(d.Join(name)); err == nil {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s does not come back: %v", name, err)
					}
				}
				st, err := os.Stat(d.Join(name))
				if err != nil || st.Mode().Perm() != 0o600 || !bytes.Equal(b, want) {
					t.Errorf("%s came back as another one: mode %v, %v", name, st.Mode(), err)
				}
			}
		})
	}
}

// A secret that is asked for again while its file is gone is the same one.
func TestSecretIsRememberedByItsProcess(t *testing.T) {
	d := open(t)
	was, err := d.Secret("template.key", 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Join("template.key")); err != nil {
		t.Fatal(err)
	}
	if is, err := d.Secret("template.key", 16); err != nil || !bytes.Equal(is, was) {
		t.Errorf("another secret (%v)", err)
	}
}

// Who has put another one there meanwhile is not overruled: services may go by it already.
func TestAnotherSecretIsLeftAlone(t *testing.T) {
	d := open(t)
	c, err := d.Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := d.Secret("host.id", 4); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Join("host.id")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Join("host.id"), []byte("next"), 0o600); err != nil {
		t.Fatal(err)
	}
	if restored, err := c.restore(); restored || err != nil {
		t.Errorf("restored %v, %v", restored, err)
	}
	if b, err := os.ReadFile(d.Join("host.id")); string(b) != "next" {
		t.Errorf("the secret is %q, %v", b, err)
	}
	if left, err := os.ReadDir(d.path); err != nil || len(left) != 2 { // and the lock
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A directory that cannot be made again is told of, not passed over.
func TestRestoreSaysWhatItCannotMend(t *testing.T) {
	d := open(t)
	c, err := d.Claim(Router, "1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(d.path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.restore(); err == nil {
		t.Error("a file in the directory's place is no trouble")
	}
	if err := os.Remove(d.path); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
