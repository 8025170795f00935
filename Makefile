# `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# A checkout that belongs to somebody else has no commit to name, and must build all the same.
COMMIT  ?= $(shell git describe --always --exclude '*' --abbrev=12 --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.commit=$(COMMIT)
GOBUILD := go build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)'

# Arguments of the program: make run ARGS='--listen :8080'
ARGS ?=
FUZZTIME ?= 100000x
# Part of the checks of pages: HTML, feeds, sitemaps, look, Lighthouse; of the console also day, moderators, tasks, forms.
CHECKS ?=

# A property of rapid that fails prints its seed. A file in testdata would make all later runs begin with that failure.
export RAPID_NOFAILFILE := 1

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build and run the service. Flags: make run ARGS='--listen 127.0.0.1:8080'
	@exec ./bin/novelgate serve $(ARGS)

.PHONY: run-cluster
run-cluster: build ## Run deploy/cluster on this machine: Patroni, etcd, HAProxy, NATS, services. Flags: make run-cluster ARGS='--data-dir DIR'
	@# Not with go run, which fails after a Ctrl-C.
	@$(GOBUILD) -o bin/cluster ./internal/cluster/main
	@exec ./bin/cluster $(ARGS)

.PHONY: build
build: ## Build bin/novelgate.
	@mkdir -p bin
	$(GOBUILD) -o bin/novelgate ./cmd/novelgate

# Of the packages: that of the newest tag and what came after it, without one that of the source.
VERSION   ?= $(shell git describe --tags --dirty 2>/dev/null || sed -n 's/^const version = "\(.*\)"/\1/p' cmd/novelgate/main.go)
# What make dist builds, and where.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64 darwin/amd64
DIST      ?= dist

.PHONY: dist
dist: ## Build archives, Debian packages, bills of materials and checksums in dist (needs a network, GNU tar). Some: make dist PLATFORMS=linux/amd64
	@VERSION='$(VERSION)' LDFLAGS='$(LDFLAGS)' DIST='$(DIST)' PLATFORMS='$(PLATFORMS)' deploy/debian/dist

.PHONY: package-test
package-test: ## Test the Debian package; as root also in a chroot (needs a network, lintian, systemd, debootstrap).
	deploy/debian/test

.PHONY: image-files
image-files: ## Build all that the container image has, in bin/image.
	rm -rf bin/image
	umask 022 && mkdir -p bin/image/root/{usr/bin,etc/ssl/certs,var/lib} bin/image/data/novelgate && \
	chmod 700 bin/image/data/novelgate && \
	CGO_ENABLED=0 $(GOBUILD) -tags timetzdata -o bin/image/root/usr/bin/novelgate ./cmd/novelgate && \
	cp /etc/ssl/certs/ca-certificates.crt bin/image/root/etc/ssl/certs/ && \
	echo 'novelgate:x:65532:65532::/var/lib/novelgate:/' >bin/image/root/etc/passwd

# Also podman: make image BUILDAH=podman
BUILDAH ?= buildah

.PHONY: image
image: image-files ## Build the container image, without any registry (needs buildah).
	$(BUILDAH) build --format docker --target outside --tag novelgate --file deploy/container/Containerfile .

.PHONY: check-image
check-image: ## Build the container image and run it on a PostgreSQL of the tests (needs root and buildah).
	go test -count=1 -tags checks -run 'TestImage' -v ./internal/e2e

.PHONY: test
test: ## Run all tests. They bring their own PostgreSQL.
	@# internal/e2e builds the program, so the test cache does not see that its code has changed.
	go test -count=1 -timeout 20m ./...

# Rounds of faults in make chaos; each has every fault once. SLACK multiplies the limits of outages, for busy machines.
ROUNDS ?= 1
SLACK ?= 1

.PHONY: chaos
chaos: ## Break deploy/cluster under load, ROUNDS times with each fault (needs what make run-cluster needs). More: make chaos ROUNDS=20
	ROUNDS=$(ROUNDS) SLACK=$(SLACK) go test -count=1 -tags chaos -timeout 12h -run 'TestChaosOfACluster|TestRunCluster|TestPgBackRest' -v ./internal/e2e

.PHONY: race
race: ## Run the tests under the race detector (needs a C compiler).
	@# With -short tests of chaos are skipped, which measure how fast things recover, and long ones: the detector slows everything down.
	@# Without GORACE it would also keep every program waiting for a second when it ends.
	GORACE=atexit_sleep_ms=10 CGO_ENABLED=1 go test -race -short -vet=off -timeout 20m ./...

.PHONY: lint
lint: ## Run the linters.
	.ci/golangci-lint run ./...

.PHONY: fmt
fmt: ## Format the code.
	.ci/golangci-lint fmt

.PHONY: docs
docs: ## Make docs/analytics.md from the database's comments and the example queries.
	go generate ./docs/...

.PHONY: fuzz
fuzz: ## Fuzz each decoder for FUZZTIME (100000x).
	.ci/fuzz $(FUZZTIME)

.PHONY: look
look: ## Open the pages in chromium and check them; pictures go to bin/look (needs a network, node, chromium).
	mkdir -p bin/look
	NOVELGATE_LOOK=$(CURDIR)/bin/look go test -count=1 -tags checks -run 'TestChecks/look' ./readapi ./internal/console

.PHONY: check-pages
check-pages: ## Check pages, feeds and sitemaps with validators (needs a network, node, java, chromium). Some: make check-pages CHECKS=feeds
	go test -count=1 -tags checks -run 'TestChecks/$(CHECKS)' -v ./readapi ./internal/console

.PHONY: generators
generators: ## Generate clients from docs/openapi.yaml and compile them, and lint it (needs a network, node).
	go test -count=1 -tags generators -run 'TestGenerators' ./docs

.PHONY: bench
bench: ## Measure against a CRUD peer. Flags: make bench ARGS='--pairs 3'
	go run -buildvcs=false ./internal/bench $(ARGS)

.PHONY: bench-growth
bench-growth: ## Measure what comments cost while the database grows. Flags: make bench-growth ARGS='--events 10000000'
	go run -buildvcs=false ./internal/bench growth $(ARGS)
