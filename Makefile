# Two commands do all the set-up: `make run` and `make test`.

CARGO ?= cargo
# Loading BPF programs needs root; so do the tests that do it.
ROOT := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo --preserve-env=PATH,HOME)

BUILD_PACKAGES := clang gcc libc6-dev libelf-dev make pkg-config zlib1g-dev
TEST_PACKAGES := linux-perf python3 util-linux
BENCH_PACKAGES := bpftrace linux-perf stress-ng

.PHONY: run build test lint bench bench-quick doc clean

run: build ## build, then record this machine for 10 s
	$(ROOT) ./target/release/crosstalk record --out recordings --duration 10s

build:
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) build --release --locked

test: ## every test of every crate, against the real kernel
	@scripts/ensure-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)
	$(ROOT) $(CARGO) test --workspace --locked --no-fail-fast

lint: ## formatting and clippy, warnings being errors
	@scripts/ensure-packages $(BUILD_PACKAGES)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

bench: ## about 20 minutes; rewrites docs/benchmarks.md
	@scripts/ensure-packages $(BUILD_PACKAGES) $(BENCH_PACKAGES)
	$(ROOT) $(CARGO) bench --locked -p crosstalk --bench recorder -- --write $(CURDIR)/docs/benchmarks.md

bench-quick: ## a few minutes; prints only
	@scripts/ensure-packages $(BUILD_PACKAGES) $(BENCH_PACKAGES)
	$(ROOT) $(CARGO) bench --locked -p crosstalk --bench recorder -- --quick

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

clean:
	$(CARGO) clean
