package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/pgpilot/pgpilot/libs/config"
)

// TestModesOfASession: what a session sees of another one's write while no replica
// replays depends on the mode that it asks for.
func TestModesOfASession(t *testing.T) {
	t.Parallel()
	const bound = 20 * time.Second
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Health.Interval = config.Duration(200 * time.Millisecond)
		c.Fencing.BoundedMS = int(bound.Milliseconds())
	})
	writer := r.connect()
	writer.must("CREATE TABLE seen AS SELECT 1 AS v")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)

	readers := map[string]*client{}
	for _, mode := range []string{"relaxed", "bounded", "strict", "causal", "linear"} {
		c := r.connect()
		c.must("SET pgpilot.fencing = '" + mode + "'")
		r.readsOnReplica(c, "SELECT v FROM seen")
		readers[mode] = c
	}
	fresh := time.Now()
	pause(t, cluster.Replicas()...)
	writer.must("UPDATE seen SET v = 2")
	for mode, c := range readers {
		want := "1"
		if mode == "linear" {
			want = "2"
		}
		got := c.one("SELECT v FROM seen")
		if mode == "bounded" && time.Since(fresh) > bound {
			continue // on a busy machine it may be over
		}
		if got != want {
			t.Errorf("%s reads %s at once, want %s", mode, got, want)
		}
	}
	if got := writer.one("SELECT v FROM seen"); got != "2" {
		t.Errorf("the writer reads %s", got)
	}
	r.until("the bound is over", func() bool { return readers["bounded"].one("SELECT v FROM seen") == "2" })

	// A token has another session see it.
	token := writer.one("SHOW pgpilot.fence")
	if got := readers["strict"].one("SELECT v FROM seen"); got != "1" {
		t.Fatalf("a strict session reads %s without the token: nothing is proven", got)
	}
	readers["strict"].must("SET pgpilot.fence = '" + token + "'")
	if got := readers["strict"].one("SELECT v FROM seen"); got != "2" {
		t.Errorf("with the token %s it reads %s", token, got)
	}
	resume(t, cluster.Replicas()...)
	for mode, c := range readers {
		r.until(mode+" reads on a replica again", func() bool {
			return c.one("SELECT v FROM seen") == "2" && c.port() != cluster.Primary().Port
		})
	}
}

// TestTokensThatAreRefused: a token only stands for what exists here.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	c := r.connect()
	c.must("CREATE TABLE refused (v int)")
	token := c.one("SHOW pgpilot.fence")
	system, at, _ := strings.Cut(token, "/")
	place := at[:strings.LastIndex(at, ":")]
	for name, bad := range map[string]string{
		"unparsable":    "nonsense",
		"other cluster": "12345/" + at,
		"beyond":        system + "/" + place + ":FFFF/0",
		"other history": system + "/7@0/1000:0/2000",
	} {
		if _, err := c.run("SET pgpilot.fence = '" + bad + "'"); sqlstate(err) != "22023" {
			t.Errorf("%s: %q gives %v, want 22023", name, bad, err)
		}
	}
	c.must("SET pgpilot.fence = '" + token + "'")
}

// TestReadsWithoutAPrimary: the operator may want an old answer rather than none.
func TestReadsWithoutAPrimary(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, func(c *config.Config) {
		c.Fencing.OnPrimaryLoss = config.Serve
		c.Failover.Wait = config.Duration(2 * time.Second)
	})
	c := r.connect()
	c.must("CREATE TABLE old AS SELECT 1 AS v")
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	pause(t, cluster.Replicas()...)
	c.must("UPDATE old SET v = 2")
	if got := c.one("SELECT v FROM old"); got != "2" {
		t.Fatalf("it reads %s of what it has written", got)
	}
	if err := cluster.Primary().Kill(timeout(t)); err != nil {
		t.Fatal(err)
	}
	r.until("it reads what is old", func() bool {
		rows, err := c.run("SELECT v FROM old")
		return err == nil && len(rows) == 1 && rows[0][0] == "1"
	})
	c.fails("UPDATE old SET v = 3", "57P03")
}
