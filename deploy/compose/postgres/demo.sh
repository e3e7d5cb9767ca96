#!/bin/sh
# Shows that a session reads its own writes while the replicas are held back. It fails
# if it is not so.
set -eu

fail() {
	echo "demo: $*" >&2
	exit 1
}

pg_isready --quiet || fail "pgpilot does not answer: bring the stack up first; docker compose ps --all shows what does not run"
for replica in replica1 replica2; do
	pg_isready --quiet --host=$replica --port=5432 || fail "$replica does not answer: docker compose ps --all shows it. The demo is for the servers that come with compose.yaml"
done

# on_replicas FUNCTION calls it on the replicas themselves, without pgpilot in between.
cat >/tmp/on_replicas <<'EOF'
for replica in replica1 replica2; do
	psql --quiet --no-psqlrc --tuples-only --output=/dev/null --host=$replica --port=5432 --command="SELECT $1()"
done
EOF
trap 'sh /tmp/on_replicas pg_wal_replay_resume' EXIT

psql --quiet --no-psqlrc --set=ON_ERROR_STOP=1 <<'EOF'
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS demo (id int PRIMARY KEY, body text);
INSERT INTO demo VALUES (1, 'old') ON CONFLICT (id) DO UPDATE SET body = 'old';

\echo 'One session wrote the value "old". Two seconds later it reads it:'
\! sleep 2
SELECT body FROM demo WHERE id = 1 \gset
SHOW pgpilot.last_route \gset
\echo '   it read' :'body' 'on' :backend', reason:' :reason
SELECT :'body' = 'old' AND :'role' = 'replica' AS ok \gset
\if :ok
\else
DO $$BEGIN RAISE 'expected "old" from a replica' USING HINT = 'http://localhost:9090/readyz says what does not run'; END$$;
\endif

\echo 'Replay is paused on both replicas. The session writes "new", and reads it at once:'
\! sh /tmp/on_replicas pg_wal_replay_pause
UPDATE demo SET body = 'new' WHERE id = 1;
SELECT body FROM demo WHERE id = 1 \gset
SHOW pgpilot.last_route \gset
\echo '   it read' :'body' 'on' :backend', reason:' :reason
SELECT :'body' = 'new' AND :'role' = 'primary' AS ok \gset
\if :ok
\else
DO $$BEGIN RAISE 'expected "new" from the primary'; END$$;
\endif

\echo 'Replay is resumed. Two seconds later the session reads again:'
\! sh /tmp/on_replicas pg_wal_replay_resume
\! sleep 2
SELECT body FROM demo WHERE id = 1 \gset
SHOW pgpilot.last_route \gset
\echo '   it read' :'body' 'on' :backend', reason:' :reason
SELECT :'body' = 'new' AND :'role' = 'replica' AS ok \gset
\if :ok
\else
DO $$BEGIN RAISE 'expected "new" from a replica' USING HINT = 'http://localhost:9090/readyz says what does not run'; END$$;
\endif
EOF
