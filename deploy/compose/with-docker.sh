#!/usr/bin/env bash
# with-docker.sh [--start-engine] COMMAND...: runs a command that uses docker compose. The
# plugins compose and buildx are built into bin/ if docker lacks them. With
# --start-engine, as root, a Docker engine is started if none answers, and stopped
# again at the end; the exit code is 77 if this machine's kernel cannot run containers.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

say() { echo "with-docker: $*" >&2; }

fail() {
	say "$@"
	exit 1
}

start=no
if [ "${1:-}" = --start-engine ]; then
	start=yes
	shift
fi

command -v docker >/dev/null || fail "there is no docker command: install Docker, on Debian with apt-get install docker.io iptables"

# cannot gives the reason why no engine could run here, if there is one.
cannot() {
	unshare --mount --uts --ipc --net --pid --fork true 2>/dev/null || {
		echo "the kernel refuses new namespaces"
		return
	}
	grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || {
		echo "the kernel has no overlay file system"
		return
	}
	mountpoint -q /sys/fs/cgroup || {
		echo "no control groups are mounted at /sys/fs/cgroup"
		return
	}
	iptables --table nat --list-rules >/dev/null 2>&1 || echo "iptables cannot read the nat table"
}

engine=
log=
stop_engine() {
	[ -n "$engine" ] || return 0
	kill "$engine" 2>/dev/null || true
	wait "$engine" 2>/dev/null || true
	engine=
	rm -f "$log"
}

if ! docker version >/dev/null 2>&1; then
	[ $start = yes ] && [ "$(id -u)" = 0 ] && command -v dockerd >/dev/null && [ -z "${DOCKER_HOST:-}" ] ||
		fail "no Docker engine answers: start it (systemctl start docker), or let your user in (group docker)"
	reason=$(cannot)
	if [ -n "$reason" ]; then
		say "containers cannot run on this machine: $reason"
		exit 77
	fi
	log=$(mktemp)
	# A session of its own: Ctrl-C is for the command, which then still has an engine to clean up with.
	setsid dockerd >"$log" 2>&1 </dev/null &
	engine=$!
	trap stop_engine EXIT
	trap 'exit 130' INT TERM
	for ((tries = 0; ; tries++)); do
		docker version >/dev/null 2>&1 && break
		if ! kill -0 "$engine" 2>/dev/null || [ $tries = 300 ]; then
			tail -n 20 "$log" >&2
			fail "the Docker engine did not start: see above"
		fi
		sleep 0.2
	done
	say "started a Docker engine, to be stopped at the end"
fi

# plugin NAME MODULE PACKAGE LDFLAGS builds a plugin of the docker command.
plugin() {
	local at=$root/bin/docker/cli-plugins/docker-$1
	[ -x "$at" ] && return
	say "building the plugin $1, which this docker lacks; the first time takes a few minutes"
	mkdir -p "${at%/*}"
	(cd "$root/tools/$1" && GOWORK=off CGO_ENABLED=0 go build -buildvcs=false \
		-ldflags "-X $4=$(GOWORK=off go list -m -f '{{.Version}}' "$2")" -o "$at" "$3")
}

compose=yes buildx=yes
docker compose version >/dev/null 2>&1 || compose=no
docker buildx version >/dev/null 2>&1 || buildx=no
if [ $compose = no ] || [ $buildx = no ]; then
	[ $compose = yes ] || plugin compose github.com/docker/compose/v5 github.com/docker/compose/v5/cmd github.com/docker/compose/v5/internal.Version
	[ $buildx = yes ] || plugin buildx github.com/docker/buildx github.com/docker/buildx/cmd/buildx github.com/docker/buildx/version.Version
	# The user's own logins and contexts stay in force.
	for name in config.json contexts; do
		theirs=${DOCKER_CONFIG:-$HOME/.docker}/$name
		if [ -e "$theirs" ]; then ln -sfn "$theirs" "$root/bin/docker/$name"; fi
	done
	export DOCKER_CONFIG=$root/bin/docker
fi

status=0
"$@" || status=$?
exit $status
