#!/usr/bin/env bash
# Does what users of psql do. See package clients.
set -euo pipefail

psql() { command psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# check STEP WANT: what psql prints for the script on the standard input.
check() {
	local got
	got=$(psql -f - 2>&1) || { echo "$1: $got" >&2; exit 1; }
	if [ "$got" != "$2" ]; then
		printf '%s prints\n%s\nwant\n%s\n' "$1" "$got" "$2" >&2
		exit 1
	fi
	echo "ok $1"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

check connect '' <<'SQL'
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS client_psql CASCADE;
CREATE SCHEMA client_psql;
CREATE TABLE client_psql.v (id int PRIMARY KEY, n int NOT NULL, word text);
INSERT INTO client_psql.v VALUES (1, 0);
SQL

{
	for i in $(seq 0 499); do echo "SELECT $i + sum(n) FROM generate_series(1, 3) n;"; done
} | check reads "$(seq 6 505)"

{
	echo 'PREPARE own AS SELECT n FROM client_psql.v WHERE id = 1;'
	for i in $(seq 1 200); do
		echo "UPDATE client_psql.v SET n = $i WHERE id = 1; SELECT n FROM client_psql.v WHERE id = 1; EXECUTE own;"
	done
} | check 'own values' "$(for i in $(seq 1 200); do echo "$i"; echo "$i"; done)"

check transaction $'1000\n1000\n-1\n1000' <<'SQL'
BEGIN;
UPDATE client_psql.v SET n = 1000 WHERE id = 1;
SELECT n FROM client_psql.v WHERE id = 1;
COMMIT;
SELECT n FROM client_psql.v WHERE id = 1;
BEGIN;
UPDATE client_psql.v SET n = -1 WHERE id = 1;
SELECT n FROM client_psql.v WHERE id = 1;
ROLLBACK;
SELECT n FROM client_psql.v WHERE id = 1;
SQL

check savepoint $'psql:<stdin>:7: ERROR:  23505\n2001' <<'SQL'
\set VERBOSITY sqlstate
BEGIN;
UPDATE client_psql.v SET n = 2000 WHERE id = 1;
SAVEPOINT here;
\set ON_ERROR_STOP off
\set ON_ERROR_ROLLBACK on
INSERT INTO client_psql.v VALUES (1, 0);
\set ON_ERROR_STOP on
UPDATE client_psql.v SET n = n + 1 WHERE id = 1;
RELEASE SAVEPOINT here;
COMMIT;
SELECT n FROM client_psql.v WHERE id = 1;
SQL

check batch $'7\n8\n7' <<'SQL'
UPDATE client_psql.v SET n = 7 WHERE id = 1\; SELECT n FROM client_psql.v WHERE id = 1\; SELECT n + 1 FROM client_psql.v WHERE id = 1;
SELECT format('SELECT n FROM client_psql.v WHERE id = %s', 1) \gexec
SQL

# In its own process group, psql gets the signal as from a terminal.
set -m
psql -c 'INSERT INTO client_psql.v SELECT 900, 0 FROM pg_sleep(50) -- psql sleeps' 2>"$scratch/cancelled" &
sleeper=$!
set +m
asleep="SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%psql sleeps'"
until [ "$(psql -c "$asleep")" = 1 ]; do sleep 0.02; done
kill -INT -- "-$sleeper"
if wait "$sleeper" || ! grep -q 'canceling statement due to user request' "$scratch/cancelled"; then
	echo "cancel: psql says $(cat "$scratch/cancelled")" >&2
	exit 1
fi
check cancel 0 <<<'SELECT count(*) FROM client_psql.v WHERE id = 900;'

for i in $(seq 0 1999); do printf '%d\t%d\tä\n' $((10000 + i)) "$i"; done >"$scratch/in"
check copy $'2000\n1999000' <<SQL
\\copy client_psql.v (id, n, word) FROM '$scratch/in'
\\copy (SELECT id, n, word FROM client_psql.v WHERE id >= 10000 ORDER BY id) TO '$scratch/out'
SELECT count(*) FROM client_psql.v WHERE id >= 10000;
SELECT sum(n) FROM client_psql.v WHERE id >= 10000;
SQL
cmp "$scratch/in" "$scratch/out" >&2

# psql looks for notifications after each statement.
news=$(psql -f - <<'SQL'
LISTEN psql_news;
NOTIFY psql_news, 'number 1';
SELECT 1;
UNLISTEN psql_news;
SQL
)
case $news in
*'"psql_news" with payload "number 1"'*) echo 'ok listen' ;;
*) echo "listen: psql prints $news" >&2 && exit 1 ;;
esac

check 'temporary table' $'1\n2' <<'SQL'
CREATE TEMP TABLE mine (n int);
INSERT INTO mine VALUES (1);
SELECT count(*) FROM mine;
INSERT INTO mine VALUES (2);
SELECT count(*) FROM mine;
SQL

check search_path $'0\n1\n0\n1' <<'SQL'
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS client_psql_a, client_psql_b CASCADE;
CREATE SCHEMA client_psql_a CREATE TABLE t (n int);
CREATE SCHEMA client_psql_b CREATE TABLE t (n int);
INSERT INTO client_psql_a.t VALUES (0);
INSERT INTO client_psql_b.t VALUES (1);
SET search_path TO client_psql_a;
PREPARE path AS SELECT n FROM t;
EXECUTE path;
SET search_path TO client_psql_b;
EXECUTE path;
SET search_path TO client_psql_a;
SELECT n FROM t;
SET search_path TO client_psql_b;
SELECT n FROM t;
SQL
