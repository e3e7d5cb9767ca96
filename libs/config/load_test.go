package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata")

// minimal is the least a file must say.
const minimal = `"primary": "db1:5432", "users": [{"name": "app", "password": "secret"}]`

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text), "test.json")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAMinimalFileGetsEveryDefault(t *testing.T) {
	want := Default()
	want.Primary = Backend{Name: "db1:5432", Address: "db1:5432", Weight: 1}
	want.Users = []User{{Name: "app", Password: "secret"}}
	want.Monitor.User, want.Monitor.Password = "app", "secret"
	if got := parse(t, "{"+minimal+"}"); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%#v\nwant\n%#v", got, want)
	}
}

// A file of the older single-binary pgpilot must keep its meaning.
func TestAnOlderFileIsAccepted(t *testing.T) {
	c, err := Load("testdata/older.json")
	if err != nil {
		t.Fatal(err)
	}
	got := c.String() + "\n"
	const golden = "testdata/older.golden.json"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, secret := range []string{"correct horse", "battery staple"} {
		if strings.Contains(got, secret) {
			t.Errorf("the shown configuration has the password %q in it", secret)
		}
	}
}

func TestBackendForms(t *testing.T) {
	tests := []struct {
		json string
		want Backend
		host string
		port uint16
	}{
		{`"db1:5433"`, Backend{"db1:5433", "db1:5433", 1}, "db1", 5433},
		{`"[::1]:5433"`, Backend{"[::1]:5433", "[::1]:5433", 1}, "::1", 5433},
		{`"/run/postgresql:5433"`, Backend{"/run/postgresql:5433", "/run/postgresql:5433", 1}, "/run/postgresql", 5433},
		{`{"address": "db1:5433"}`, Backend{"db1:5433", "db1:5433", 1}, "db1", 5433},
		{`{"name": "one", "address": "db1:5433"}`, Backend{"one", "db1:5433", 1}, "db1", 5433},
		{`{"name": "one", "host": "db1", "port": 5433}`, Backend{"one", "db1:5433", 1}, "db1", 5433},
		{`{"host": "db1", "weight": 3}`, Backend{"db1:5432", "db1:5432", 3}, "db1", 5432},
		{`{"host": "db1"}`, Backend{"db1:5432", "db1:5432", 1}, "db1", 5432},
		{`{"host": "::1", "port": 5433}`, Backend{"[::1]:5433", "[::1]:5433", 1}, "::1", 5433},
		{`{"host": "/run/postgresql"}`, Backend{"/run/postgresql:5432", "/run/postgresql:5432", 1}, "/run/postgresql", 5432},
	}
	for _, tt := range tests {
		c := parse(t, `{"primary": `+tt.json+`, "users": [{"name": "app", "password": "x"}]}`)
		if c.Primary != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.json, c.Primary, tt.want)
		}
		if host, port, err := c.Primary.HostPort(); host != tt.host || port != tt.port || err != nil {
			t.Errorf("%s: taken apart to %q, %d, %v; want %q, %d", tt.json, host, port, err, tt.host, tt.port)
		}
	}
}

func TestMonitorLogin(t *testing.T) {
	const users = `"primary": "db1:5432", "users": [{"name": "app", "password": "x"}, {"name": "watch", "password_env": "WATCH"}]`
	tests := []struct {
		name, json string
		want       Monitor
	}{
		{"not given: the first user", `{` + users + `}`, Monitor{User: "app", Password: "x", Database: "postgres"}},
		{"database only", `{` + users + `, "monitor": {"database": "app"}}`, Monitor{User: "app", Password: "x", Database: "app"}},
		{"a user of the list", `{` + users + `, "monitor": {"user": "watch"}}`, Monitor{User: "watch", PasswordEnv: "WATCH", Database: "postgres"}},
		{"a login of its own", `{` + users + `, "monitor": {"user": "m", "password_file": "/m"}}`, Monitor{User: "m", PasswordFile: "/m", Database: "postgres"}},
	}
	for _, tt := range tests {
		if got := parse(t, tt.json).Monitor; got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// An older file may poll more rarely than the default of the newer stale_after.
func TestStaleAfterFollowsTheInterval(t *testing.T) {
	for _, tt := range []struct {
		health string
		want   time.Duration
	}{
		{`{}`, 3 * time.Second},
		{`{"interval": "200ms"}`, 3 * time.Second},
		{`{"interval": "10s"}`, 30 * time.Second},
		{`{"interval": "10s", "stale_after": "11s"}`, 11 * time.Second},
	} {
		if got := parse(t, `{`+minimal+`, "health": `+tt.health+`}`).Health.StaleAfter.D(); got != tt.want {
			t.Errorf("%s: stale_after is %s, want %s", tt.health, got, tt.want)
		}
	}
}

// What Config encodes to is a file that means the same: tools write files so.
func TestAnEncodedConfigIsAFile(t *testing.T) {
	c, err := Load("testdata/older.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if again := parse(t, string(b)); !reflect.DeepEqual(again, c) {
		t.Errorf("got\n%#v\nwant\n%#v", again, c)
	}
}

func TestMissingFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	path := filepath.Join(t.TempDir(), "none.json")
	_, err := Load(path)
	if want := "configuration " + path + " does not exist: name another file with -config"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := os.Stat("/etc/pgpilot/pgpilot.json"); err == nil {
		t.Skip("this machine has /etc/pgpilot/pgpilot.json, so a file is always found")
	}
	_, err = Find()
	if want := "no configuration: neither pgpilot.json nor /etc/pgpilot/pgpilot.json exists, so name the file with -config"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.WriteFile("pgpilot.json", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(); got != "pgpilot.json" || err != nil {
		t.Errorf("got %q, %v; want pgpilot.json of this folder", got, err)
	}
}

// The longest run_dir that is accepted here is the longest that rundir accepts.
func TestRunDirLengthIsThatOfRundir(t *testing.T) {
	root, err := os.MkdirTemp("", "cfg")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	longest := root + "/" + strings.Repeat("x", maxRunDir-len(root)-1)
	if _, err := rundir.Open(longest); err != nil {
		t.Errorf("a path of %d bytes: %v", len(longest), err)
	}
	if _, err := rundir.Open(longest + "x"); err == nil {
		t.Errorf("a path of %d bytes is accepted by rundir but not here", len(longest)+1)
	}
}

func TestRunDirOfARefusedFile(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"run_dir": "/srv/run", "primary": "a:1", "users": [{"name": "u", "password": "p"}]}`, "/srv/run"},
		{`{"primry": "a:1", "run_dir": "/srv/run"}`, "/srv/run"},
		{"\ufeff" + `{"run_dir": "/srv/run"}`, "/srv/run"},
		{`{"primary": "a:1"}`, "/run/pgpilot"},
		{`{"run_dir": null}`, "/run/pgpilot"},
		{`{"run_dir": 7}`, "/run/pgpilot"},
		{`{"run_dir": "/srv/run",`, "/run/pgpilot"},
	} {
		path := filepath.Join(t.TempDir(), "pgpilot.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := RunDir(path); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
	if got := RunDir("/nonexistent"); got != "/run/pgpilot" {
		t.Errorf("no file: got %q", got)
	}
}
