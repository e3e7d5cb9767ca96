#!/usr/bin/env bash
# Builds stand-ins for the public images that the stack starts from, under the same
# names, out of Debian packages: where no registry can be reached, everything can
# still be built and tested. An image that is there already is left as it is, real
# or stand-in. --again builds the stand-ins anew, --missing only those whose real
# image cannot be pulled.
#
# Stand-ins hold what this machine's Go needs to fetch modules (its GOPROXY and its
# certificates), so they are for this machine only: do not push them.
set -euo pipefail
cd "$(dirname "$0")/../.."

suite=bookworm
mirror=http://deb.debian.org/debian
label=pgpilot.stand-in

fail() {
	echo "images-local: $*" >&2
	exit 1
}

again=no missing=no
case "${1:-}" in
--again) again=yes ;;
--missing) missing=yes ;;
'') ;;
*) fail "the only arguments are --again, which builds the stand-ins anew, and --missing, which tries to pull the real images first" ;;
esac

docker version >/dev/null 2>&1 || fail "no Docker engine answers: start one, or name it in DOCKER_HOST"

# name VARIABLE DEFAULT gives the image that the compose files start from.
golang=${GO_IMAGE:-golang:1.26-bookworm}
postgres=${POSTGRES_IMAGE:-postgres:15-bookworm}
busybox=${BUSYBOX_IMAGE:-busybox:1.37}
natsbox=${NATS_IMAGE:-natsio/nats-box:0.18.0}
prometheus=${PROMETHEUS_IMAGE:-prom/prometheus:v3.5.0}
base=pgpilot-stand-in/debian:$suite

# wanted IMAGE says whether a stand-in has to be built.
wanted() {
	local is
	is=$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$1" 2>/dev/null) || {
		[ $missing = no ] || [ "$1" = $base ] || ! docker pull --quiet "$1" 2>/dev/null
		return
	}
	[ "$is" = yes ] || {
		echo "$1: the real image is here, it stays"
		return 1
	}
	[ $again = yes ] || {
		echo "$1: a stand-in is here"
		return 1
	}
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build IMAGE builds a stand-in from the Dockerfile on standard input and the files in $work/context.
build() {
	mkdir -p "$work/context"
	cat >"$work/Dockerfile"
	DOCKER_BUILDKIT=1 docker build --quiet --label $label=yes --tag "$1" --file "$work/Dockerfile" "$work/context" >/dev/null
	rm -rf "$work/context"
	echo "$1: stand-in built"
}

# make_base makes the image that the others are built on, once they are needed.
based=no
make_base() {
	[ $based = no ] || return 0
	based=yes
	wanted $base || return 0
	[ "$(id -u)" = 0 ] || fail "debootstrap needs root: run this as root, or pull the real images instead"
	command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
	debootstrap --variant=minbase --include=ca-certificates $suite "$work/root" $mirror >"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		fail "debootstrap could not build Debian $suite"
	}
	tar --directory "$work/root" --create . | docker import --change "LABEL $label=yes" - $base >/dev/null
	rm -rf "$work/root"
	echo "$base: built"
}

if wanted "$golang"; then
	make_base
	mkdir -p "$work/context"
	tar --directory "$(go env GOROOT)" --exclude=./test --create . | (mkdir "$work/context/go" && tar --directory "$work/context/go" --extract)
	cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$work/context/certificates"
	build "$golang" <<-EOF
		FROM $base
		RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
		COPY go /usr/local/go
		COPY certificates /etc/ssl/certs/ca-certificates.crt
		ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		ENV GOPATH=/go GOTOOLCHAIN=local GOPROXY="$(go env GOPROXY)" GOSUMDB="$(go env GOSUMDB)" GONOSUMDB="$(go env GONOSUMDB)"
	EOF
fi

# The folders and the path are the real image's.
if wanted "$postgres"; then
	make_base
	build "$postgres" <<-EOF
		FROM $base
		RUN mkdir -p /etc/postgresql-common/createcluster.d && \\
			echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/none.conf && \\
			apt-get update && apt-get install --yes --no-install-recommends postgresql-15 && rm -rf /var/lib/apt/lists/* && \\
			mkdir -p /var/lib/postgresql/data && chown postgres:postgres /var/lib/postgresql/data && \\
			chmod 1777 /var/lib/postgresql/data && chmod 3777 /var/run/postgresql
		ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin
		ENV PGDATA=/var/lib/postgresql/data
		VOLUME /var/lib/postgresql/data
		STOPSIGNAL SIGINT
		CMD ["postgres"]
	EOF
fi

if wanted "$busybox"; then
	make_base
	build "$busybox" <<-EOF
		FROM $base AS packages
		RUN apt-get update && apt-get install --yes --no-install-recommends busybox-static && \\
			mkdir -p /out/bin && cp /bin/busybox /out/bin/ && for name in sh sleep tail wget nc; do ln -s busybox /out/bin/\$name; done
		FROM scratch
		COPY --from=packages /out /
		CMD ["sh"]
	EOF
fi

if wanted "$natsbox"; then
	make_base
	mkdir -p "$work/context"
	(cd tools/nats && GOWORK=off CGO_ENABLED=0 go build -o "$work/context/nats" github.com/nats-io/natscli/nats)
	build "$natsbox" <<-EOF
		FROM $base
		COPY nats /usr/local/bin/nats
		CMD ["nats", "--help"]
	EOF
fi

if wanted "$prometheus"; then
	make_base
	build "$prometheus" <<-EOF
		FROM $base
		RUN apt-get update && apt-get install --yes --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/* && \\
			mkdir -p /prometheus && chown nobody:nogroup /prometheus
		USER nobody
		WORKDIR /prometheus
		ENTRYPOINT ["prometheus"]
		CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
	EOF
fi
