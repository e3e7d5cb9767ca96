package service

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// next waits for a new configuration.
func (r *running) next(t *testing.T) *config.Config {
	t.Helper()
	select {
	case c := <-r.env.Reloads:
		return c
	case <-time.After(patience):
		t.Fatalf("no new configuration came:\n%s", r.logs)
		return nil
	}
}

func (r *running) none(t *testing.T) {
	t.Helper()
	select {
	case c := <-r.env.Reloads:
		t.Fatalf("a new configuration came: %s", c)
	default:
	}
}

func TestReload(t *testing.T) {
	f := newFolder(t)
	f.write("")
	r := f.start()
	reloads := func(result, n string) func() bool {
		return func() bool {
			_, body := f.get("router.1", "/metrics")
			return strings.Contains(body, `pgpilot_config_reloads_total{result="`+result+`"} `+n+"\n")
		}
	}

	f.write(`, "routing": {"all_to_primary": true}`)
	if c := r.next(t); !c.Routing.AllToPrimary || r.env.Config.Routing.AllToPrimary {
		t.Error("the new configuration is not the file's, or the one of the start changed")
	}

	f.write(`, "routing": {"all_to_primry": true}`)
	f.eventually("a misspelt key is refused", reloads("refused", "1"))
	f.eventually("the log says why", func() bool {
		return strings.Contains(r.logs.String(), "pgpilot.json:1: routing.all_to_primry: there is no such key: did you mean routing.all_to_primary?")
	})
	r.none(t)

	shows := func(gauge, note string) func() bool {
		return func() bool {
			_, metrics := f.get("router.1", "/metrics")
			_, ready := f.get("router.1", "/readyz")
			return strings.Contains(metrics, "\npgpilot_config_refused "+gauge+"\n") && strings.Contains(ready, note) == (gauge == "1")
		}
	}
	f.eventually("the refusal shows as long as it lasts", shows("1", "routing.all_to_primry: there is no such key"))

	f.write(`, "listen": "127.0.0.1:2"`)
	f.eventually("a key that cannot change is refused", reloads("refused", "2"))
	f.eventually("what a start would do is said", shows("1", "an earlier configuration is in force until the next start: listen cannot change while pgpilot runs"))
	f.eventually("the log says why", func() bool {
		return strings.Contains(r.logs.String(), "listen cannot change while pgpilot runs: change it back, or restart pgpilot")
	})
	r.none(t)

	// Written in place this time.
	f.write("")
	if c := r.next(t); c.Routing.AllToPrimary {
		t.Error("the switch is still on")
	}
	f.eventually("nothing is refused any more", shows("0", "an earlier configuration is in force"))
	text, err := os.ReadFile(f.config())
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "}]", `}], "pool": {"max_size": 77}`, 1)
	if err := os.WriteFile(f.config(), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := r.next(t); c.Pool.MaxSize != 77 {
		t.Errorf("pool.max_size is %d", c.Pool.MaxSize)
	}
	f.eventually("three reloads are counted", reloads("ok", "3"))
	if _, body := f.get("router.1", "/config"); !strings.Contains(body, `"max_size": 77`) || strings.Contains(body, "unspoken") {
		t.Errorf("the configuration in force is shown as\n%s", body)
	}

	r.stop()
	r.release <- nil
	<-r.code
}

// A service that was busy through several reloads finds only the latest.
func TestTheLatestReloadWins(t *testing.T) {
	f := newFolder(t)
	f.write("")
	r := f.start()
	for _, size := range []string{"11", "12", "13"} {
		f.write(`, "pool": {"max_size": ` + size + `}`)
		f.eventually("max_size "+size+" is read", func() bool {
			_, body := f.get("router.1", "/metrics")
			return strings.Contains(body, `pgpilot_config_reloads_total{result="ok"} `+string(size[1])+"\n")
		})
	}
	if c := r.next(t); c.Pool.MaxSize != 13 {
		t.Errorf("pool.max_size is %d, want the latest, 13", c.Pool.MaxSize)
	}
	r.none(t)
	r.stop()
	r.release <- nil
	<-r.code
}

// A configuration of which the service could take only a part is refused as a whole, and
// taken as soon as what it names is there, without being asked again.
func TestWhatAConfigurationNamesMustBeThere(t *testing.T) {
	f := newFolder(t)
	f.write("")
	password := filepath.Join(f.path, "password")
	r := f.startChecked(func(c *config.Config) error {
		_, err := c.Monitor.Secret()
		return err
	})
	counted := func(ok, refused string) func() bool {
		return func() bool {
			_, body := f.get("router.1", "/metrics")
			return strings.Contains(body, `pgpilot_config_reloads_total{result="ok"} `+ok+"\n") &&
				strings.Contains(body, `pgpilot_config_reloads_total{result="refused"} `+refused+"\n")
		}
	}
	put := func() {
		t.Helper()
		if err := os.WriteFile(password+".new", []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(password+".new", password); err != nil {
			t.Fatal(err)
		}
	}
	f.write(`, "routing": {"all_to_primary": true}, "monitor": {"user": "m", "password_file": "` + password + `"}`)
	f.eventually("it is refused", counted("0", "1"))
	r.none(t)
	if _, body := f.get("router.1", "/config"); !strings.Contains(body, `"all_to_primary": false`) {
		t.Errorf("shown as in force:\n%s", body)
	}
	if _, body := f.get("router.1", "/readyz"); !strings.Contains(body, "until what the new one names can be used") || !strings.Contains(body, password) {
		t.Errorf("/readyz says %s", body)
	}
	put()
	if c := r.next(t); !c.Routing.AllToPrimary {
		t.Error("it is not the new configuration that is taken")
	}
	f.eventually("it is counted once", counted("1", "1"))

	// The same file is read again at SIGHUP, and what it names too.
	if err := os.Remove(password); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	f.eventually("the reload is refused", counted("1", "2"))
	r.none(t)
	put()
	r.next(t)
	f.eventually("the reload is made up for", counted("2", "2"))
	r.stop()
	r.release <- nil
	<-r.code
}
