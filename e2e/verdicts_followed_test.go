package e2e

import (
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// followed is a rig with a function whose read is known, and what alters it behind the
// router's back.
func followed(t *testing.T) (r *rig, c *client, alter func(string)) {
	t.Helper()
	r = newRig(t, newCluster(t), nil)
	c = r.connect()
	c.must("CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'")
	r.caughtUp()
	r.readsOnReplica(c, "SELECT f()")
	su := direct(t, r.Lab.Primary())
	return r, c, func(sql string) { t.Helper(); su.must(sql) }
}

// What has changed while no classifier was there is noticed when there is one again, even
// if nobody has anything to ask it.
func TestACatalogThatChangesWhileNoClassifierRunsIsNoticed(t *testing.T) {
	t.Parallel()
	r, c, alter := followed(t)
	r.kill(rundir.Classifier, 1)
	alter("ALTER FUNCTION f() VOLATILE")
	c.must("SELECT f()") // as it was known: nobody can say better
	r.start(rundir.Classifier, 1)
	r.until("the function is known to be volatile", func() bool {
		c.must("SELECT f()")
		return c.route().Reason == "write"
	})
}

// One classifier follows what another was asked about: that one may end.
func TestACatalogThatChangesIsNoticedByTheClassifierThatIsLeft(t *testing.T) {
	t.Parallel()
	r, c, alter := followed(t)
	if _, err := r.AddInstance(timeout(t), rundir.Classifier); err != nil {
		t.Fatal(err)
	}
	r.until("the second is connected", func() bool { return r.metric("pgpilot_classifier_connections", "instance", "2") > 0 })
	r.kill(rundir.Classifier, 1)
	alter("ALTER FUNCTION f() VOLATILE")
	r.until("the function is known to be volatile", func() bool {
		c.must("SELECT f()")
		return c.route().Reason == "write"
	})
}

// A flush that the bus does not carry is told by the next verdict.
func TestAFlushThatIsLostIsToldByTheNextVerdict(t *testing.T) {
	t.Parallel()
	r, c, alter := followed(t)
	r.kill(rundir.Lagpoller, 1) // and with it the bus
	alter("ALTER FUNCTION f() VOLATILE")
	var fresh novelties
	r.until("the function is known to be volatile", func() bool {
		c.must(fresh.next())
		c.must("SELECT f()")
		return c.route().Reason == "write"
	})
}

// What a classifier says of a database that it may not look into is forgotten when it may,
// and also when that classifier is no more and nobody has anything to ask its successor.
func TestWhatTheBlindSayIsForgottenWhenTheySee(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	su := direct(t, cluster.Primary())
	su.must("CREATE ROLE watcher LOGIN REPLICATION PASSWORD 'watch' IN ROLE pg_monitor")
	for name, blinded := range map[string]func(r *rig, grant func()){
		"the one that was asked": func(_ *rig, grant func()) { grant() },
		"its successor": func(r *rig, grant func()) {
			r.kill(rundir.Classifier, 1)
			grant()
			r.start(rundir.Classifier, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			su.must("DROP DATABASE IF EXISTS closed WITH (FORCE)")
			su.must("CREATE DATABASE closed OWNER " + lab.User)
			su.must("REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
			r := newRig(t, cluster, func(c *config.Config) { c.Monitor.User, c.Monitor.Password = "watcher", "watch" })
			connect := func() *client {
				c, err := dial(t, strings.Replace(r.dsn(), "dbname="+lab.Database, "dbname=closed", 1))
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			connect().must("CREATE TABLE t (id int)") // not judged in time it binds its session
			r.caughtUp()
			c := connect()
			const read = "SELECT id FROM t"
			r.until("the router remembers that it is a write", func() bool {
				before := r.metric("pgpilot_classifier_requests_total")
				c.must(read)
				return c.route().Role == "primary" && r.metric("pgpilot_classifier_requests_total") == before
			})
			blinded(r, func() { su.must("GRANT CONNECT ON DATABASE closed TO watcher") })
			r.until("it is a read", func() bool {
				c.must(read)
				return c.route().Role == "replica"
			})
		})
	}
}

// A cursor that a function opens, and a setting that it makes, last as long as their
// transaction, whichever of its statements run where.
func TestReadOnlyTransactionsKeepWhatFunctionsLeaveInThem(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	r := newRig(t, cluster, nil)
	c := r.connect()
	c.must(`CREATE TABLE seen AS SELECT 7 AS v;
		CREATE FUNCTION opens() RETURNS refcursor LANGUAGE plpgsql STABLE AS $$DECLARE c refcursor := 'kept'; BEGIN OPEN c FOR SELECT v FROM seen; RETURN c; END$$;
		CREATE FUNCTION sets() RETURNS text LANGUAGE plpgsql STABLE AS $$BEGIN RETURN set_config('app.kept', 'here', true); END$$`)
	r.caughtUp()
	r.awaitReplicas(cluster.Replicas()...)
	r.readsOnReplica(c, "SELECT v FROM seen")
	for range 5 {
		c.must("BEGIN READ ONLY")
		c.must("SELECT opens()")
		if got := c.one("FETCH kept"); got != "7" {
			t.Errorf("the cursor has %q", got)
		}
		c.must("COMMIT")
		c.must("BEGIN READ ONLY")
		c.must("SELECT sets()")
		if got := c.one("SELECT current_setting('app.kept', true)"); got != "here" {
			t.Errorf("the setting is %q", got)
		}
		c.must("COMMIT")
	}
}

// What a block or a function makes in its session, by SQL of its own too, the session finds.
func TestASessionFindsWhatItsBlocksMake(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	for _, c := range []struct{ make, ask, want string }{
		{"DO $$BEGIN CREATE TEMP TABLE shadowed AS SELECT 'mine'::text AS v; END$$", "SELECT v FROM shadowed", "mine"},
		{"DO $$BEGIN EXECUTE format('CREATE TEMP TABLE %I AS SELECT %L::text AS v', 'shadowed', 'mine'); END$$", "SELECT v FROM shadowed", "mine"},
		{"DO $$BEGIN PERFORM set_config('app.mine', 'set', false); END$$", "SELECT current_setting('app.mine', true)", "set"},
		{"SELECT makes()", "SELECT v FROM shadowed", "made"},
	} {
		s := r.connect()
		s.must(`CREATE TABLE IF NOT EXISTS shadowed AS SELECT 'everybody''s'::text AS v;
			CREATE OR REPLACE FUNCTION makes() RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE 'CREATE TEMP TABLE shadowed AS SELECT ''made''::text AS v'; END$$`)
		r.caughtUp()
		s.must(c.make)
		for range 3 {
			if got := s.one(c.ask); got != c.want {
				t.Errorf("%s: %s gives %q, want %q", c.make, c.ask, got, c.want)
			}
		}
		s.close()
	}
}
