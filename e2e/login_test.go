package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/stack/stacktest"
)

// A login that fails is told in PostgreSQL's words.
func TestRefusedLoginsReadAsFromTheServer(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		// Known to pgpilot, not to the servers.
		c.Users = append(c.Users, config.User{Name: "ghost", Password: "boo"})
	})
	su := direct(t, cluster.Primary())
	su.must("CREATE DATABASE closed")
	su.must("REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
	r.caughtUp()
	for name, words := range map[string]struct{ user, password, database string }{
		"wrong password":   {lab.User, "wrong", lab.Database},
		"empty password":   {lab.User, "", lab.Database},
		"unknown user":     {"mallory", "x", lab.Database},
		"unknown database": {lab.User, lab.Password, "nowhere"},
		"closed database":  {lab.User, lab.Password, "closed"},
		"unknown role":     {"ghost", "boo", lab.Database},
	} {
		t.Run(name, func(t *testing.T) {
			say := func(port int) string {
				cmd := exec.CommandContext(timeout(t), "psql", "-X", "-w", "-c", "SELECT 1",
					fmt.Sprintf("host=127.0.0.1 port=%d user=%s password='%s' dbname=%s sslmode=disable", port, words.user, words.password, words.database))
				cmd.Env = append(os.Environ(), "LC_ALL=C", "PGPASSFILE=/dev/null")
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Fatalf("port %d let us in: %s", port, out)
				}
				return strings.ReplaceAll(string(out), fmt.Sprint(port), "PORT")
			}
			if want, got := say(cluster.Primary().Port), say(r.port); want != got {
				t.Errorf("the server says\n%s\npgpilot says\n%s", want, got)
			}
		})
	}
}

// A configuration with a fault stops a service before it does anything, with exit
// code 2 and a sentence that names the fault.
func TestBadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	bin := stacktest.Programs(t)
	for name, c := range map[string]struct{ text, says string }{
		"unknown key":      {`{"primary": "127.0.0.1:1", "users": [{"name": "a", "password": "b"}], "pool": {"max_sise": 3}}`, "pool.max_size"},
		"wrong type":       {`{"primary": "127.0.0.1:1", "users": [{"name": "a", "password": "b"}], "pool": {"max_size": "many"}}`, "pool.max_size"},
		"impossible value": {`{"primary": "127.0.0.1:1", "users": [{"name": "a", "password": "b"}], "pool": {"mode": "statement"}}`, "pool.mode"},
		"no primary":       {`{"users": [{"name": "a", "password": "b"}]}`, "primary"},
		"no JSON":          {`{"primary": `, "pgpilot.json:1: "},
		"no such file":     {"", "no-such-file.json"},
	} {
		for _, service := range []string{"listener", "router", "classifier", "lagpoller"} {
			t.Run(name+"/"+service, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "pgpilot.json")
				if c.text == "" {
					file = filepath.Join(t.TempDir(), "no-such-file.json")
				} else if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(timeout(t), filepath.Join(bin, service), "-config", file)
				out, err := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != 78 {
					t.Errorf("exit code %d (%v), want 78", code, err)
				}
				if !strings.Contains(string(out), c.says) {
					t.Errorf("it says %q, which does not name %q", out, c.says)
				}
				if n := strings.Count(strings.TrimSpace(string(out)), "\n"); n > 1 {
					t.Errorf("it says more than is good for one fault:\n%s", out)
				}
			})
		}
	}
}
