package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A cleaner that sweeps the run directory does no lasting harm: running sessions go on,
// and the services find each other again.
func TestSweptRunDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	before := r.connect()
	names, err := filepath.Glob(filepath.Join(r.cfg.RunDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	swept := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".sock") || strings.HasSuffix(name, ".lock") {
			// Without its lock a service counts as dead, and others help to sweep.
			if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			swept++
		}
	}
	if swept < 9 {
		t.Fatalf("only %d names of %v", swept, names)
	}
	if got := before.one("SELECT 'alive'"); got != "alive" {
		t.Errorf("a running session: %q", got)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sock") {
			r.until(name+" is back", func() bool { _, err := os.Stat(name); return err == nil })
		}
	}
	r.until("every service is found again", func() bool { status, _ := r.get("/readyz"); return status == 200 })
	for range 4 {
		c := r.connect()
		c.must("CREATE TEMP TABLE x (a int)")
		c.close()
	}
	r.awaitReplicas(r.Lab.Replicas()...)
	r.until("the listener counts its router once", func() bool {
		_, page := r.get("/metrics")
		return strings.Contains(page, `pgpilot_listener_routers{instance="1",service="listener"} 1`+"\n")
	})
}

// Services that start after the run directory was removed as a whole, with the secrets by
// which the others know each other, are admitted by those, and admit them.
func TestRemovedRunDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	r.awaitReplicas(r.Lab.Replicas()...)
	names, err := filepath.Glob(filepath.Join(r.cfg.RunDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(r.cfg.RunDir); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		switch filepath.Ext(name) {
		case ".sock", ".lock", ".secret", ".id", ".key":
			r.until(name+" is back", func() bool { _, err := os.Stat(name); return err == nil })
		}
	}
	for _, service := range []string{"lagpoller", "router", "lagpoller"} {
		r.kill(service, 1)
		r.start(service, 1)
		r.connected("after the restart of a "+service, 2)
	}
	r.awaitReplicas(r.Lab.Replicas()...)
}
