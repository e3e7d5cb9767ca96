#!/usr/bin/env bash
# Installs what make up needs and this machine does not have, with --test the drivers
# that make test tries too, and with --containers instead of all that what make
# compose-test needs. What is there is left as it is: upgrading PostgreSQL under
# running servers breaks them.
set -euo pipefail

oldest_go=1.21 # the first that fetches a newer release by itself

have() { command -v "$1" >/dev/null 2>&1; }

fail() {
	echo "install-deps: $*" >&2
	exit 1
}

# The same places as package lab looks in.
have_postgres() {
	[ -n "${PGPILOT_PG_BIN:-}" ] && return 0
	have initdb && return 0
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

# at_least VERSION says whether VERSION is oldest_go or newer.
at_least() { [ "$(printf '%s\n%s\n' "$oldest_go" "$1" | sort -V | head -n 1)" = "$oldest_go" ]; }

have_go() {
	have go || return 1
	local version
	version=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || return 1
	at_least "${version#go}"
}

# test_deps adds what e2e/clients and deploy/systemd need to missing. Its Python modules may belong to
# another Python than the first on the path.
test_deps() {
	local module
	for module in psycopg psycopg2; do
		python3 -c "import $module" 2>/dev/null || /usr/bin/python3 -c "import $module" 2>/dev/null || missing+=("python3-$module")
	done
	have systemd-analyze || missing+=(systemd)
	have javac || missing+=(default-jdk-headless)
	[ -e /usr/share/java/postgresql.jar ] || missing+=(libpostgresql-jdbc-java)
	have node || missing+=(nodejs)
	have npm || missing+=(npm)
}

# node_modules fetches node-postgres, as its lock file says, into bin/.
node_modules() {
	local source=$checkout/e2e/clients/node target=$checkout/bin/clients/node
	cmp -s "$source/package-lock.json" "$target/node_modules/.pgpilot-lock" && return 0
	echo "installing: node-postgres in bin/clients/node"
	mkdir -p "$target"
	cp "$source/package.json" "$source/package-lock.json" "$target/"
	(cd "$target" && npm ci --silent --ignore-scripts --no-audit --no-fund) ||
		fail "npm could not install node-postgres: see why with \"cd $target && npm ci\""
	cp "$source/package-lock.json" "$target/node_modules/.pgpilot-lock"
}

checkout=$(cd "$(dirname "$0")/../.." && pwd)
# container_deps adds a Docker engine to missing, unless one answers or can be started,
# and on Debian what makes the base images where no registry can be reached.
container_deps() {
	if ! have docker || ! docker version >/dev/null 2>&1; then
		have docker && have dockerd || missing+=(docker.io)
		have iptables || missing+=(iptables)
	fi
	have debootstrap || ! have apt-get || missing+=(debootstrap)
}

tests=no containers=no
case "${1:-}" in
--test) tests=yes ;;
--containers) containers=yes ;;
'') ;;
*) fail "the only arguments are --test and --containers, for what make test or make compose-test needs" ;;
esac

missing=()
[ $tests = yes ] && test_deps
[ $containers = yes ] && container_deps
have git || missing+=(git)
have make || missing+=(make)
server=no
if [ $containers = no ]; then
	have gcc || missing+=(gcc libc6-dev)
	have psql || missing+=(postgresql-client)
	have_postgres || server=yes
fi
golang=no
have_go || golang=yes

if [ ${#missing[@]} -eq 0 ] && [ $server = no ] && [ $golang = no ]; then
	[ $tests = no ] || node_modules
	exit 0
fi

wanted="${missing[*]:-}"
[ $server = yes ] && wanted="$wanted postgresql"
[ $golang = yes ] && wanted="$wanted golang-go($oldest_go or newer)"
wanted="${wanted# }"

have apt-get || fail "please install these with your system's package manager: $wanted"
if [ "$(id -u)" = 0 ]; then
	root=()
elif have sudo; then
	root=(sudo)
else
	fail "please install as root: $wanted"
fi
apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }

echo "installing: $wanted"
apt update >/dev/null || echo "install-deps: the package lists could not be updated, going on with the old ones" >&2

# go_package names the distribution's newest package with a Go that is new enough.
go_package() {
	local package version
	for package in golang-go $(apt-cache --names-only search '^golang-1\.[0-9]+-go$' | cut -d' ' -f1 | sort -Vr); do
		version=$(apt-cache policy "$package" | sed -n 's/^  Candidate: \([0-9]*:\)\?\([0-9.]*\).*/\2/p')
		if [ -n "$version" ] && at_least "$version"; then
			echo "$package"
			return 0
		fi
	done
	return 1
}

if [ $golang = yes ]; then
	package=$(go_package) ||
		fail "Go $oldest_go or newer is needed and this distribution has none: install it as https://go.dev/doc/install says, then run this again"
	missing+=("$package")
fi

if [ ${#missing[@]} -gt 0 ]; then
	apt install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# Only golang-go puts the go command on the path.
if [ $golang = yes ] && ! have_go; then
	newest=$(compgen -G '/usr/lib/go-*/bin/go' | sort -V | tail -n 1) || fail "the package $package has no go program in /usr/lib/go-*/bin"
	"${root[@]}" ln -s "$newest" /usr/local/bin/go
	"${root[@]}" ln -sf "${newest%/go}/gofmt" /usr/local/bin/gofmt
	have_go || fail "$newest is installed, but another go is found before /usr/local/bin: put that first in PATH"
fi

if [ $server = yes ]; then
	# The package starts a server of its own on port 5432 unless told otherwise.
	apt install -y --no-install-recommends postgresql-common >/dev/null
	quiet=/etc/postgresql-common/createcluster.d/zz-pgpilot-install.conf
	"${root[@]}" mkdir -p "${quiet%/*}"
	echo 'create_main_cluster = false' | "${root[@]}" tee "$quiet" >/dev/null
	trap '"${root[@]}" rm -f "$quiet"' EXIT
	apt install -y --no-install-recommends postgresql >/dev/null
fi
[ $tests = no ] || node_modules
echo "installed: $wanted"
