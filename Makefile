# What there is to do with this checkout. CI runs .ci/run, which calls the same
# targets.

# Staticcheck is pinned in go.mod, the software of interop and conformance in their
# lock files.

# How long each fuzz target of make fuzz runs. What stands in testdata/fuzz was found in
# that way: each file takes a target where its own seeds do not, in every run of the tests.
FUZZTIME ?= 10s
# Which of the end-to-end tests make valkey runs.
VALKEY ?= Redis|Replica
# How tests run with the race detector, everywhere, so that packages are compiled once: with the
# profile of goroutines that nothing can wake, for TestNothingIsLeft.
RACE = GOEXPERIMENT=goroutineleakprofile go test -race
# What make test leaves to make test-all: see Long in internal/mcptest.
SHORT = -short
# Installs the programs of other people that tests run.
APT = internal/redistest/apt.sh
# Flags of make soak: -for, -seed, -clients, -fault.
SOAK ?=
# The systems, beside the one at hand, for which make check compiles everything.
SYSTEMS ?= linux/386 linux/arm64 darwin/arm64 windows/amd64

.DEFAULT_GOAL := help
.PHONY: help build site run test test-all redis valkey check systems archtest size fuzz interop browser conformance bench since soak release-check release-tools release licences vulnerabilities clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/gatehouse
	@[ -x bin/gatehouse ] || echo "The first build takes one to three minutes on two cores, later ones seconds."
	go build -o bin/gatehouse ./cmd/gatehouse

site: ## build the documentation as a site in .cache/site
	cd docs/site && go tool hugo --panicOnWarning --noBuildLock --destination ../../.cache/site

run: build ## build and run the demo: a gateway with three servers behind it
	bin/gatehouse demo

# No test may depend on where it runs: this is where clocks are 12:45 or 13:45 ahead. The
# packages whose tests take longest come first, and as most of these wait, one more runs than
# there are processors. The race detector would find nothing in the rules of the architecture.
# vet is part of make check.
test test-all: export TZ = Pacific/Chatham
test: redis ## run the tests with the race detector, but for the long ones (3 minutes)
	@mkdir -p .cache
	$(RACE) $(SHORT) $(COVER) -vet=off -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -timeout 15m \
		./internal/e2e ./cmd/gatehouse ./upstream ./internal/cluster ./gateway $$(go list ./... | grep -v /internal/archtest)
	go test -vet=off ./internal/archtest
	go test -vet=off -tags purego ./internal/jsonstring # as it is without assembly

test-all: SHORT =
test-all: COVER = -coverprofile .cache/cover
test-all: test ## run all tests with the race detector, those that count what is held without it, and check what they cover
	GATEHOUSE_COVER=$$PWD/.cache/cover go test -vet=off -count=1 -run '^TestCovered$$' ./internal/archtest
	go test -vet=off -timeout 9m -run '^(TestNothingIsLeft|TestIdleStreams)$$' ./internal/e2e

redis: ## install redis-server, jq, curl and openssl for the tests where they are missing (apt, as root)
	@$(APT) redis-server,valkey-server:redis-server jq:jq curl:curl openssl:openssl

valkey: redis ## run the tests that need a Redis over Valkey, which it gets where it is missing (Debian 12 or newer)
	@program=$$(internal/redistest/valkey.sh) && export GATEHOUSE_TEST_REDIS="$$program" && \
		$(RACE) ./session/... ./policy ./internal/cluster ./internal/largeresults ./internal/redisdb ./internal/redistest && \
		$(RACE) -run '$(VALKEY)' ./internal/e2e ./cmd/gatehouse

check: archtest systems ## gofmt, vet, staticcheck, the rules of the architecture, and that other systems compile
	@unformatted=$$(gofmt -l $$(go list -f '{{.Dir}}' ./...)); if [ -n "$$unformatted" ]; then echo "gofmt is needed for:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go vet -tags interop ./internal/interop/...
	go tool staticcheck ./...
	go tool staticcheck -tags interop ./internal/interop/...
	go vet -tags browser ./internal/browser
	go tool staticcheck -tags browser ./internal/browser

systems: ## compile the program and its tests for SYSTEMS
	@for system in $(SYSTEMS); do \
		echo "GOOS=$${system%/*} GOARCH=$${system#*/}" && \
		GOOS=$${system%/*} GOARCH=$${system#*/} CGO_ENABLED=0 go build ./... && \
		GOOS=$${system%/*} GOARCH=$${system#*/} CGO_ENABLED=0 go vet ./... || exit 1; \
	done

systems release release-check: export GOFLAGS = -trimpath # so that the one compiles for the other

size: ## print how many lines of code each room has
	go test -count=1 -v -run '^TestSize$$' ./internal/archtest

archtest: ## the rules of the architecture alone
	go test ./internal/archtest

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@mkdir -p .cache && program=$$PWD/.cache/fuzz.test && cache=$$(go env GOCACHE)/fuzz && \
	go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}} {{.ImportPath}}{{end}}' ./... | while read -r dir path; do \
		targets=$$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | sed 's/^func //'); \
		[ -z "$$targets" ] || go test -c -fuzz=. -o "$$program" "$$path" || exit 1; \
		for target in $$targets; do \
			echo "$$target in $$dir"; \
			(cd "$$dir" && "$$program" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) -test.fuzzcachedir "$$cache/$$path") || exit 1; \
		done || exit 1; \
	done

interop: ## run other people's clients, servers and proxies with the gateway (npm, PyPI, and apt as root)
	@$(APT) nginx:nginx-light haproxy:haproxy caddy:caddy pebble:pebble tinyproxy:tinyproxy squid:squid openssl:openssl xdg-open:xdg-utils
	go test -tags interop -count=1 -timeout 25m ./internal/interop

browser: ## open every page of the console and for users in Chromium (apt, as root, and npm)
	@$(APT) chromium:chromium chromium:fonts-dejavu-core
	@internal/browser/install.sh
	go test -tags browser -count=1 -timeout 15m ./internal/browser

conformance: ## run the official conformance suite through the gateway (npm)
	go run ./internal/conformance

bench: redis ## measure the gateway against a bare reverse proxy, and what everything on, replicas, idle streams and the console cost
	go run ./internal/bench
	go run ./internal/bench -rate 2000 -scenario call-100B
	go run ./internal/bench -tls -scenario call-100B
	go run ./internal/bench -full
	go run ./internal/bench -full -upstreams 100 -scenario list
	go run ./internal/bench -full -upstreams 200 -scenario list
	go run ./internal/bench -replicas
	go run ./internal/bench -idle 8000
	go run ./internal/bench -console

# The commit with which make since compares: the last release, or a newer one that was measured well.
SINCE ?= 13cf7411

since: ## fail when a small call or an answer of 64 KiB costs a tenth more CPU than at the commit SINCE
	go run ./internal/bench -since $(SINCE)

soak: redis ## clients of all kinds through three replicas, for 10 minutes, while everything fails in turn (SOAK="-for 1m -seed 7")
	go run ./internal/soak $(SOAK)

# What builds a release, at one version everywhere: in CI, at a desk and in the workflow that publishes it.
GORELEASER ?= go run github.com/goreleaser/goreleaser/v2@v2.15.1

release-check: ## build a release without publishing it, twice, and try all that it has (as root, on Linux)
	@$(APT) systemd-analyze:systemd readelf:binutils ip:iproute2 rpm:rpm zsh:zsh fish:fish curl:curl
	GORELEASER='$(GORELEASER)' deploy/release/check.sh

# The tools with which the workflow pushes the image and the chart of a release: make release-tools DIR=/tmp
release-tools:
	GOBIN=$(DIR) go install github.com/google/go-containerregistry/cmd/crane@v0.22.1
	go -C internal/interop/helm build -o $(DIR)/helm helm.sh/helm/v3/cmd/helm

release: ## build the release of the tag at hand in dist; .github/workflows/release.yml publishes it
	$(GORELEASER) release --clean --skip=publish

licences: ## find modules in the program under licences that deploy/release/licences.json does not allow
	deploy/release/notices.sh check

vulnerabilities: ## look for known vulnerabilities in what the program calls (needs vuln.go.dev)
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

clean: ## remove what was built, installed and cached in this checkout
	rm -rf bin .cache dist
