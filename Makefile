# `make run`, `make record` and `make test` each do all the set-up. More flags: make run ARGS='--listen 127.0.0.1:9000'

CARGO ?= cargo
# Loading BPF programs needs root; so do the tests that do it.
ROOT := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo --preserve-env=PATH,HOME,KUBECONFIG)

BUILD_PACKAGES := clang gcc libc6-dev libelf-dev make pkg-config zlib1g-dev
# Others bring a kubectl of their own, beside which Debian's cannot be installed.
KUBECTL := $(shell command -v kubectl >/dev/null || echo kubernetes-client)
TEST_PACKAGES := $(KUBECTL) busybox-static chromium containerd curl docker.io fuse3 influxdb intel-cmt-cat iproute2 linux-perf mariadb-client-core mariadb-server-core openssl postgresql procps prometheus python3 \
	python3-venv util-linux victoria-metrics
KERNEL_PACKAGES := busybox-static cpio e2fsprogs qemu-system-x86
BENCH_PACKAGES := bpftrace linux-perf python3-venv stress-ng victoria-metrics wrk

# Each benchmark replaces its own section of the page.
KEEP := --write $(CURDIR)/docs/benchmarks.md

# Rows that SQL is asked of at most; with 100000000 it takes a tenth of the time.
LONGEST ?= 1000000000

PREFIX ?= /usr/local
# dev builds faster, release runs faster
PROFILE ?= release
# engine, or ballista for one that asks clusters, too
SQL_FEATURES ?= engine
# Tests and lint take the query engine in, with a cluster to try it on: the same features each time, so that it is built once.
ALL := --workspace --locked --features crosstalk-sql/ballista-node

.PHONY: run record build sql sql-timings install package test test-cluster test-sql test-spark test-kernel test-quiet readers lint bench bench-quick bench-sql-quick walk-through accuracy doc clean

run: build ## build, then watch this machine and answer on http://127.0.0.1:8000
	$(ROOT) ./target/release/crosstalk agent $(ARGS)

record: build ## build, then record this machine for 10 s
	$(ROOT) ./target/release/crosstalk record --out recordings/$$(date -u +%Y%m%dT%H%M%SZ) --duration 10s $(ARGS)

build:
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) build --release --locked -p crosstalk

sql: ## build crosstalk-sql, the query engine behind crosstalk sql, compact, rollup and analyze --engine
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) build --release --locked -p crosstalk-sql --features $(SQL_FEATURES)

sql-timings: ## CPU seconds that crosstalk-sql takes to build, by features; needs a quiet machine, and long
	@scripts/ensure-packages $(BUILD_PACKAGES)
	CARGO='$(CARGO)' scripts/sql-timings

install: ## both programs into $(PREFIX)/bin, optimised across crates, which takes long
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) build --profile dist --locked -p crosstalk -p crosstalk-sql --features crosstalk-sql/$(SQL_FEATURES)
	$(ROOT) install -D -t $(DESTDIR)$(PREFIX)/bin target/dist/crosstalk target/dist/crosstalk-sql

package: ## both programs with licences, units and guide, in target/crosstalk-VERSION-MACHINE.tar.gz
	@scripts/ensure-packages $(BUILD_PACKAGES)
	CARGO='$(CARGO)' SQL_FEATURES='$(SQL_FEATURES)' scripts/package

test: readers ## every test of every crate, against the real kernel, the query engine's among them
	@scripts/ensure-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)
	$(ROOT) env CROSSTALK_NO_SKIP=1 $(CARGO) test $(ALL) --no-fail-fast

test-kernel: ## cold memory, and the benchmark driver on cgroup v2, in guests with Debian's 6.12 kernel and its newest under qemu; about six minutes
	@scripts/ensure-packages $(BUILD_PACKAGES) $(KERNEL_PACKAGES)
	$(ROOT) $(CARGO) test $(ALL) --test kernel -- --ignored --nocapture

test-quiet: ## twenty runs in which nobody disturbs anybody, and adaptive must do nothing; about four minutes
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(ROOT) env CROSSTALK_NO_SKIP=1 CROSSTALK_QUIET_RUNS=20 $(CARGO) test $(ALL) --test bench -- \
		a_service_that_nobody_disturbs_is_left_as_it_is --nocapture

test-cluster: ## the tests of a real cluster, against Debian's Kubernetes API server, which is built first: ten minutes, once
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) test $(ALL) --no-run --test real_cluster --test node_metric --test deploy
	$(ROOT) env CROSSTALK_NO_SKIP=1 scripts/with-cluster $(CARGO) test $(ALL) --test real_cluster --test node_metric --test deploy

test-spark: readers target/readers/spark ## verdicts by Spark beside those of one machine
	@scripts/ensure-packages $(BUILD_PACKAGES) default-jre-headless
	$(CARGO) test $(ALL) --test engine spark:: -- --ignored

test-sql: readers ## crosstalk-sql's own tests alone
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) test --locked -p crosstalk-sql --features ballista-node

target/readers/spark: target/readers/installed
	target/readers/bin/pip install --quiet --disable-pip-version-check pyspark
	touch $@

readers: target/readers/installed ## the tools the tests open recordings with
target/readers/installed: Makefile
	@scripts/ensure-packages python3 python3-venv
	/usr/bin/python3 -m venv target/readers
	target/readers/bin/pip install --quiet --disable-pip-version-check boto3 duckdb 'moto[s3,server]' pandas perfetto protobuf pyarrow
	touch $@

lint: ## formatting and clippy, warnings being errors
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(ALL) --all-targets -- -D warnings

bench: readers ## each rival beside us; about an hour and a half; rewrites docs/benchmarks.md
	@scripts/ensure-packages $(BUILD_PACKAGES) $(BENCH_PACKAGES) $(KERNEL_PACKAGES)
	$(ROOT) $(CARGO) bench --locked -p crosstalk --bench recorder -- $(KEEP)
	$(ROOT) $(CARGO) bench --locked -p crosstalk --bench cache -- $(KEEP)
	$(ROOT) $(CARGO) bench --locked -p crosstalk --bench agent -- $(KEEP)
	$(CARGO) bench --locked -p crosstalk-analysis --bench streaming -- --hour $(KEEP)
	$(CARGO) bench --locked -p crosstalk-probe --bench weather -- $(KEEP)
	target/readers/bin/pip install --quiet --disable-pip-version-check polars
	$(CARGO) bench --locked -p crosstalk-sql --features ballista-node --bench beside_duckdb -- --hour --longest $(LONGEST) $(KEEP)
	$(ROOT) $(CARGO) bench --locked -p crosstalk-coldmem --bench cold_memory -- $(KEEP)
	$(ROOT) $(CARGO) bench --locked -p crosstalk-bench --bench collecting -- $(KEEP)
	$(CARGO) bench --locked -p crosstalk-agent --bench window_api -- $(KEEP)
	$(CARGO) bench --locked -p crosstalk-window --bench answer
	$(CARGO) bench --locked -p crosstalk-training-log --bench lines_per_second -- $(KEEP)
	$(CARGO) bench --locked -p crosstalk-processor --bench beside_vmagent -- $(KEEP)

bench-quick: ## a few minutes; prints only
	@scripts/ensure-packages $(BUILD_PACKAGES) $(BENCH_PACKAGES)
	$(ROOT) $(CARGO) bench --locked -p crosstalk --bench recorder -- --quick

bench-sql-quick: readers ## a minute of rows through SQL beside DuckDB and Polars; prints only
	@scripts/ensure-packages $(BUILD_PACKAGES)
	target/readers/bin/pip install --quiet --disable-pip-version-check polars
	$(CARGO) bench --locked -p crosstalk-sql --features ballista-node --bench beside_duckdb -- --quick

walk-through: readers target/readers/spark ## docs/sql.md from end to end: two nodes, a bucket, four ways to the same verdicts
	@scripts/ensure-packages $(BUILD_PACKAGES) default-jre-headless
	$(CARGO) build --locked --profile $(PROFILE) -p crosstalk
	$(CARGO) build --locked --profile $(PROFILE) -p crosstalk-sql --features ballista-node
	$(ROOT) scripts/two-nodes target/$(subst dev,debug,$(PROFILE))

accuracy: ## how right verdicts are, simulated and on this machine; about an hour; rewrites docs/accuracy.md
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(ROOT) $(CARGO) bench --locked -p crosstalk --bench accuracy -- --results $(CURDIR)/target/accuracy.jsonl --write $(CURDIR)/docs/accuracy.md $(ARGS)

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

clean:
	$(CARGO) clean
