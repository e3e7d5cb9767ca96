#!/usr/bin/env bash
# The test of the stack in containers; arguments go to it (-rounds 3, -strict). It
# installs and starts what is missing, and ends with 77, without having tested
# anything, where the kernel cannot run containers.
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/local/install-deps.sh --containers
export GOWORK=off
exec deploy/compose/with-docker.sh --start-engine bash -euo pipefail -c '
	deploy/images/local.sh --missing
	cd deploy
	go test -tags compose -count 1 -timeout 30m -v ./compose -args "$@"
' test "$@"
