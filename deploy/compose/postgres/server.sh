#!/bin/sh
# A bundled PostgreSQL server: "primary", or "replica NAME". What it makes appears
# under its final name only when it is whole, so an interrupted start is simply
# made again.
set -eu

conninfo="host=primary user=replicator application_name=${2:-}"
new=$PGDATA.new

make_primary() {
	rm -rf "$new"
	mkdir -m 0700 "$new"
	initdb --pgdata="$new" --username=postgres --auth=reject --encoding=UTF8 --locale=C.UTF-8 >/dev/null
	cat >"$new/pg_hba.conf" <<-EOF
		host all,replication all all scram-sha-256
		local all postgres peer
		local all all scram-sha-256
	EOF
	# Single-user mode needs no authentication. A quote in a password is doubled.
	quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/''/g")"; }
	{
		echo "CREATE ROLE pgpilot LOGIN PASSWORD $(quoted "$PGPILOT_PASSWORD");"
		echo "CREATE ROLE pgpilot_monitor LOGIN REPLICATION PASSWORD $(quoted "$MONITOR_PASSWORD") IN ROLE pg_read_all_stats;"
		echo "CREATE ROLE replicator LOGIN REPLICATION PASSWORD $(quoted "$REPLICATION_PASSWORD");"
		echo "CREATE DATABASE pgpilot OWNER pgpilot;"
	} >"$new/roles.sql"
	postgres --single -D "$new" -c password_encryption=scram-sha-256 postgres <"$new/roles.sql" >/dev/null
	rm "$new/roles.sql"
	# What the demo needs to hold a replica back.
	echo 'GRANT EXECUTE ON FUNCTION pg_wal_replay_pause(), pg_wal_replay_resume() TO pgpilot;' |
		postgres --single -D "$new" pgpilot >/dev/null
	mv "$new" "$PGDATA"
}

make_replica() {
	export PGPASSWORD="$REPLICATION_PASSWORD"
	rm -rf "$new"
	mkdir -m 0700 "$new"
	# The slot keeps what this replica has not had yet, as far as max_slot_wal_keep_size allows.
	psql --quiet --no-psqlrc --dbname="$conninfo dbname=postgres" --set=ON_ERROR_STOP=1 --set=slot="$1" --output=/dev/null <<-'EOF'
		SELECT pg_create_physical_replication_slot(:'slot', true)
		WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = :'slot');
	EOF
	pg_basebackup --dbname="$conninfo" --pgdata="$new" --slot="$1" --write-recovery-conf --checkpoint=fast --no-password
	mv "$new" "$PGDATA"
}

if [ ! -e "$PGDATA" ]; then
	case "$1" in
	primary) make_primary ;;
	replica) make_replica "$2" ;;
	esac
fi

# hot_standby_feedback: long reads on a replica are not cancelled by vacuum on the primary.
exec postgres -D "$PGDATA" \
	-c listen_addresses='*' \
	-c max_connections=200 \
	-c wal_level=replica \
	-c max_wal_senders=20 \
	-c max_replication_slots=20 \
	-c max_slot_wal_keep_size=1GB \
	-c hot_standby=on \
	-c hot_standby_feedback=on \
	-c wal_retrieve_retry_interval=500ms \
	-c log_destination=stderr \
	-c logging_collector=off \
	-c cluster_name="${2:-primary}"
