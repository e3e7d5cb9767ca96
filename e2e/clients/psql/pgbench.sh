#!/usr/bin/env bash
# Runs pgbench's own scripts in the three protocols; no transaction may fail. See package
# clients.
set -euo pipefail

# run STEP ARGUMENTS: prints pgbench's report only if something is wrong with it.
run() {
	local report
	report=$(pgbench "${@:2}" 2>&1) || { echo "$1: $report" >&2; exit 1; }
	case $report in
	*'number of failed transactions: 0 '*) ;;
	*) echo "$1: $report" >&2 && exit 1 ;;
	esac
}

report=$(pgbench -i -q -s 1 2>&1) || { echo "init: $report" >&2; exit 1; }
echo 'ok init'
for protocol in simple extended prepared; do
	run "$protocol" -n -M "$protocol" -c 4 -j 2 -t 200 -b select-only
	run "$protocol" -n -M "$protocol" -c 4 -j 2 -t 50 -b tpcb-like
	echo "ok $protocol"
done
