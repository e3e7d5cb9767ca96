package e2e

import (
	"testing"
	"time"
)

// A replica that is configured otherwise answers as the primary would, as far as servers
// tell what shapes their answers.
func TestReplicasThatAreConfiguredOtherwiseAnswerAlike(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	for _, m := range cluster.Replicas() {
		su := direct(t, m)
		for _, set := range []string{"TimeZone = 'Asia/Tokyo'", "DateStyle = 'German'", "IntervalStyle = 'iso_8601'", "standard_conforming_strings = off"} {
			su.must("ALTER SYSTEM SET " + set)
		}
		su.must("SELECT pg_reload_conf()")
	}
	r := newRig(t, cluster, nil)
	r.awaitReplicas(cluster.Replicas()...)
	const text = `SELECT concat_ws(' ', '2024-01-01 20:00+00'::timestamptz, interval '1 day 2 hours', length('\\'))`
	want := direct(t, cluster.Primary()).one(text)
	for _, startup := range []string{"", "options='-c TimeZone=Asia/Tokyo'"} {
		c, err := r.dial(startup)
		if err != nil {
			t.Fatal(err)
		}
		if startup != "" {
			want = "2024-01-02 05:00:00+09 1 day 02:00:00 2"
		}
		for range 2 {
			r.readsOnReplica(c, text)
			if got := c.one(text); got != want {
				t.Errorf("%s: on the %s: %s, want %s", startup, c.route().Role, got, want)
			}
			c.must("SET TimeZone = 'Etc/GMT-1'; RESET TimeZone")
		}
	}
}

// When the primary is reloaded with other values, replicas answer by these too.
func TestReplicasAnswerAlikeAfterAReload(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	r.awaitReplicas(cluster.Replicas()...)
	const text = `SELECT '2024-01-01 20:00+00'::timestamptz::text`
	c, writer := r.connect(), r.connect()
	r.readsOnReplica(c, text)
	su := direct(t, cluster.Primary())
	su.must("ALTER SYSTEM SET TimeZone = 'Asia/Tokyo'")
	su.must("SELECT pg_reload_conf()")
	const want = "2024-01-02 05:00:00+09"
	for limit := time.Now().Add(time.Minute); ; {
		writer.must("CREATE TABLE IF NOT EXISTS passing (a int)")
		r.readsOnReplica(c, text)
		got := c.one(text)
		if got == want {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("on the %s: %s, want %s", c.route().Role, got, want)
		}
	}
}
