# make up: from nothing to a running pgpilot. make help lists the rest.

# Debian's Go does not fetch the release that go.work asks for unless told to.
export GOTOOLCHAIN ?= auto

MODULES  := e2e libs services/listener services/router services/classifier services/lagpoller bench
PACKAGES := $(MODULES:%=./%/...)

BIN     := $(CURDIR)/bin
RUN     := .run
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)
# The version is stamped here, so git need not work where sources are copied without it.
BUILD   := -buildvcs=false -ldflags '-X github.com/pgpilot/pgpilot/libs/service.version=$(VERSION)'

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

.PHONY: deps
deps: ## install what is missing (PostgreSQL, a C compiler, git, Go)
	@deploy/local/install-deps.sh

.PHONY: test-deps
test-deps:
	@deploy/local/install-deps.sh --test

.PHONY: build
build: ## build every program into bin/
	@test -e $(BIN)/classifier || echo 'building; the first time takes a few minutes, since it compiles the parser of PostgreSQL'
	@mkdir -p $(BIN)
	CGO_ENABLED=0 go build $(BUILD) -o $(BIN)/ ./services/listener ./services/router ./services/lagpoller \
		./libs/lab/cmd/lab ./libs/stack/cmd/stack ./libs/stack/cmd/demo
	CGO_ENABLED=1 go build $(BUILD) -o $(BIN)/ ./services/classifier

# CONFIG names a configuration with real servers, ROUTERS how many routers to run.
# LAB_PORT is the port of the local primary (the replicas get the next two).
LAB := $(if $(LAB_PORT),-lab-port $(LAB_PORT))

.PHONY: up
up: deps build ## start everything and say how to connect [CONFIG=file] [ROUTERS=n] [LAB_PORT=n]
	@$(BIN)/stack -dir $(RUN) -bin $(BIN) $(LAB) $(if $(CONFIG),-config '$(CONFIG)') $(if $(ROUTERS),-routers $(ROUTERS)) up

.PHONY: down
down: $(BIN)/stack ## stop everything; remove its files, but not an edited .run/pgpilot.json
	@said=$$($(BIN)/stack -dir $(RUN) down); status=$$?; \
	if [ -n "$$said" ]; then echo "$$said"; fi; \
	if [ $$status = 0 ] && [ "$$said" != 'nothing is running' ]; then echo stopped; fi; \
	exit $$status

.PHONY: status
status: $(BIN)/stack ## show services and servers
	@$(BIN)/stack -dir $(RUN) status

.PHONY: roll
roll: build ## restart every service with what has been built, one after another; clients notice a pause at most
	@$(BIN)/stack -dir $(RUN) roll

# Only when missing: down and status must not wait for a build.
$(BIN)/stack:
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build $(BUILD) -o $(BIN)/ ./libs/stack/cmd/stack

.PHONY: demo
demo: up ## walk through what pgpilot does, on the local cluster [DEMOFLAGS=-fast]
	@$(BIN)/demo -dir $(RUN) $(DEMOFLAGS)

# Tests that may run beside each other mostly wait for servers and services: so many of
# a package are under way at once.
PARALLEL ?= 4

.PHONY: test
test: test-deps check-fmt build checked check-modules ## everything that must pass [PARALLEL=4]
	go vet $(PACKAGES)
	@$(MAKE) --no-print-directory --jobs 2 --keep-going test-stack test-race

# Two halves beside each other, each a package at a time. What tests whole stacks goes
# without the race detector: the programs are processes of their own, and watching over the
# tests' side of a socket took half of the processors.
STACKS := ./e2e/... ./bench/...
TESTS   = go test -tags $(CHECKS) -parallel $(PARALLEL) -timeout 45m

.PHONY: test-stack
test-stack:
	PGPILOT_BIN=$(CHECKED) $(TESTS) -p 1 $(STACKS)

.PHONY: test-race
test-race:
	PGPILOT_BIN=$(CHECKED) $(TESTS) -p 1 -race $(filter-out $(STACKS),$(PACKAGES))

# The programs that are tested check themselves, at every release of a server
# connection for one: a router that would give a client another one's answers ends.
CHECKS  := pgpilot_checks
CHECKED := $(BIN)/checked

.PHONY: checked
checked: build
	@mkdir -p $(CHECKED)
	cp $(filter-out $(BIN)/router,$(addprefix $(BIN)/,listener router lagpoller classifier lab stack demo)) $(CHECKED)/
	CGO_ENABLED=0 go build $(BUILD) -tags $(CHECKS) -o $(CHECKED)/ ./services/router

# FOR is how long, SEED what is done by chance, MODE a fencing mode, or mixed for sessions of all of them.
FOR  ?= 15m
SEED ?= 1
MODE ?= mixed

.PHONY: check-consistency
check-consistency: test-deps build ## judge what sessions see under every kind of fault, on servers and simulated [FOR=15m] [SEED=1] [MODE=mixed]
	PGPILOT_BIN=$(BIN) go test -count=1 -timeout 0 -v ./e2e/faults -for $(FOR) -seed $(SEED) -mode $(MODE)
	go test -count=1 -timeout 0 -v ./services/router/internal/sim -schedules 100000 -first $(SEED) -mutants

.PHONY: soak
soak: test-deps build ## have sessions do everything by chance, with small pools, and look at what is left [FOR=15m] [SEED=1]
	PGPILOT_BIN=$(BIN) go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./e2e/soak -for $(FOR) -seed $(SEED)

.PHONY: check-verdicts
check-verdicts: test-deps ## run every statement of the corpus that is judged a read on a primary and on a replica
	go test -count=1 -timeout 0 -v ./services/classifier/internal/readcheck -whole

.PHONY: check-fmt
check-fmt:
	@unformatted=$$(gofmt -l $(MODULES) deploy) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

# What deploys pgpilot has a module of its own, outside the workspace: its tests read
# manifests with libraries that no service needs.
.PHONY: test-deploy
test-deploy: ## check the manifests, units, dashboard and examples in deploy/
	cd deploy && GOWORK=off go vet -tags compose ./... && GOWORK=off go test ./...

# Each module must also build without the workspace.
.PHONY: check-modules
check-modules:
	@for module in $(MODULES); do \
		echo "GOWORK=off go build ./... # in $$module"; \
		(cd $$module && GOWORK=off go build ./...) || exit 1; \
	done

.PHONY: fmt
fmt: ## format the sources
	gofmt -w $(MODULES) deploy

# Results that are there are continued: see bench/README.md for BENCHFLAGS.
.PHONY: bench
bench: build ## compare with PgBouncer, pgpool-II and PostgreSQL alone, in ten minutes [BENCHFLAGS=...]
	CGO_ENABLED=0 go build $(BUILD) -o $(BIN)/ ./bench
	$(BIN)/bench -bin $(BIN) $(BENCHFLAGS)

.PHONY: bench-full
bench-full: ## the same with every case, in some hours [BENCHFLAGS=...]
	@$(MAKE) --no-print-directory bench BENCHFLAGS='-plan full $(BENCHFLAGS)'

.PHONY: lint
lint: $(BIN)/golangci-lint ## run the linters
	$(BIN)/golangci-lint run $(PACKAGES)

# The linters have a module of their own: their dependencies are not the project's.
$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	cd tools && GOWORK=off go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

COMPOSE := deploy/compose/with-docker.sh docker compose --file deploy/compose/compose.yaml

.PHONY: compose-up
compose-up: ## start everything in containers and say how to connect [ROUTERS=n]
	@PGPILOT_VERSION=$(VERSION) PGPILOT_REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) \
		$(COMPOSE) up --detach --build --wait $(if $(ROUTERS),--no-recreate --scale router=$(ROUTERS))
	@echo "connect with: psql 'host=localhost port=$${PGPILOT_PORT:-6432} dbname=pgpilot user=pgpilot'   # password: pgpilot"

.PHONY: compose-down
compose-down: ## stop the containers and remove them, their networks and their data
	@$(COMPOSE) --profile '*' down --volumes --remove-orphans

.PHONY: compose-test
compose-test: ## start everything in containers under another name, restart and scale it under load [ROUNDS=n]
	@deploy/compose/test.sh -rounds $(or $(ROUNDS),3)

.PHONY: images-local
images-local: ## build stand-ins for the base images from Debian packages, where no registry can be reached
	@deploy/compose/with-docker.sh deploy/images/local.sh
