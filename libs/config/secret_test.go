package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretSources(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("PGPILOT_TEST_PASSWORD", "from env")
	t.Setenv("PGPILOT_TEST_EMPTY", "")
	missing := filepath.Join(t.TempDir(), "none")
	verifier := file("SCRAM-SHA-256$4096:x$y:z\n")
	empty := file("\nsecond line")
	tests := []struct {
		name string
		user User
		want string
		err  string
	}{
		{"plain", User{Password: "p"}, "p", ""},
		{"environment", User{PasswordEnv: "PGPILOT_TEST_PASSWORD"}, "from env", ""},
		{"file", User{PasswordFile: file("from file")}, "from file", ""},
		{"first line of a file", User{PasswordFile: file("from file\nmore\n")}, "from file", ""},
		{"Windows line end", User{PasswordFile: file("from file\r\n")}, "from file", ""},
		{"spaces belong to it", User{PasswordFile: file(" a b \n")}, " a b ", ""},
		{"missing file", User{PasswordFile: missing}, "", "read password_file: open " + missing + ": no such file or directory"},
		{"empty first line", User{PasswordFile: empty}, "", "the first line of password_file " + empty + " is empty: put the password there"},
		{"empty environment", User{PasswordEnv: "PGPILOT_TEST_EMPTY"}, "", "the environment variable PGPILOT_TEST_EMPTY named by password_env is empty: put the password there"},
		{"environment not set", User{PasswordEnv: "PGPILOT_TEST_NEVER_SET"}, "", "the environment variable PGPILOT_TEST_NEVER_SET named by password_env is not set: put the password there"},
		{"verifier in a file", User{PasswordFile: verifier}, "", "the first line of password_file " + verifier + ": this is a SCRAM verifier: verifier-only users come in a later version, so give the password itself"},
		{"nothing", User{}, "", "give exactly one of password, password_file and password_env"},
	}
	for _, tt := range tests {
		tt.user.Name = "app"
		got, err := tt.user.Secret()
		if tt.err != "" {
			tt.err = `find the password of user "app": ` + tt.err
		}
		if got != tt.want || (err == nil) != (tt.err == "") || (err != nil && err.Error() != tt.err) {
			t.Errorf("%s: got %q, %v; want %q, %s", tt.name, got, err, tt.want, tt.err)
		}
	}
	m := Monitor{User: "watch", PasswordEnv: "PGPILOT_TEST_PASSWORD"}
	if got, err := m.Secret(); got != "from env" || err != nil {
		t.Errorf("monitor: got %q, %v", got, err)
	}
	m.PasswordEnv = "PGPILOT_TEST_EMPTY"
	if _, err := m.Secret(); err == nil || !strings.HasPrefix(err.Error(), `find the password of monitor.user "watch": `) {
		t.Errorf("monitor: got %v, want an error that names it", err)
	}
}

// However a configuration is printed or logged, no password is in it.
func TestPasswordsAreNeverShown(t *testing.T) {
	c := Default()
	c.Users = []User{{Name: "app", Password: "hunter2"}}
	c.Monitor.User, c.Monitor.Password = "app", "hunter2"
	c.Bus.User, c.Bus.Password = "app", "hunter2"
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %s\n", c, c, c)
	fmt.Fprintf(&out, "%v %+v %s\n", *c, *c, c.Users)
	fmt.Fprintf(&out, "%v %+v %v\n", c.Users[0], &c.Users[0], c.Monitor)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("shown", "config", c, "user", c.Users[0], "monitor", c.Monitor)
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("a password is shown:\n%s", &out)
	}
	if n := strings.Count(out.String(), mask); n < 10 {
		t.Errorf("only %d masked passwords in:\n%s", n, &out)
	}
	if c.Users[0].Password != "hunter2" || c.Monitor.Password != "hunter2" {
		t.Error("showing the configuration changed it")
	}
}
