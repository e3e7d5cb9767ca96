#!/usr/bin/env bash
# The test of the stack in containers; arguments go to it (-rounds 3). It
# installs and starts what is missing, and ends with 77, without having tested
# anything, where the kernel cannot run containers.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/local/install-deps.sh --containers
export GOWORK=off
exec deploy/compose/with-docker.sh --start-engine bash -euo pipefail -c '
	deploy/images/local.sh --missing
	cd deploy
	said=$(mktemp)
	trap "rm -f $said" EXIT
	status=0
	go test -tags compose -count 1 -timeout 30m -v ./compose -args "$@" | tee "$said" || status=$?
	if [ $status != 0 ]; then
		# The containers logs are long: what is wrong once more, where it is found.
		printf "\nwhat failed:\n"
		grep -E -A 3 "^ *(--- FAIL|(stack|docker|load)_test\.go:[0-9]+:)" "$said" | grep -vE " \| (time=|20)" | cut -c -400
	fi
	exit $status
' test "$@"
