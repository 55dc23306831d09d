# Everything this project does, by name. `make` alone lists it.
#
# One virtual environment, $(VENV), holds the package in editable form with the native module built last. Tests use the
# dev profile (debug assertions and overflow checks on), the demo and the benchmarks the release profile. Cargo keeps
# both builds, so going from one to the other only copies a file. Stamps in $(VENV)/.stamps remember what is done.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
PROFILE ?= dev
CARGO ?= cargo
CARGO_FLAGS ?= --locked
MATURIN_FLAGS ?=
PYTEST_FLAGS ?=
DEMO_FLAGS ?=
BENCH_FLAGS ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml -o -name build.rs)

# Also for the pip that maturin starts.
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The interpreter that pyo3's build script looks at when cargo is called without maturin.
export PYO3_PYTHON := $(abspath $(BIN)/python)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'
	@echo
	@echo "  Variables: PYTHON=$(PYTHON) VENV=$(VENV) PROFILE=$(PROFILE) PYTEST_FLAGS= DEMO_FLAGS= BENCH_FLAGS="

.PHONY: demo
demo: $(STAMPS)/extra-cli ## Set everything up and replay a real conversation through the four tiers
	@$(MAKE) --no-print-directory develop PROFILE=release
	$(BIN)/tiermem demo $(DEMO_FLAGS)

.PHONY: test
test: test-rust test-python ## Set everything up and run every test but the slow ones

# Always the whole workspace: another selection of crates has other features, and so builds the C++ once more.
.PHONY: test-rust
test-rust: $(STAMPS)/venv ## Run the tests of the Rust workspace
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --workspace $(CARGO_FLAGS) && \
	  $(CARGO) test --doc --workspace $(CARGO_FLAGS); \
	else \
	  $(CARGO) test --workspace $(CARGO_FLAGS); \
	fi

.PHONY: test-python
test-python: $(STAMPS)/extra-dev $(STAMPS)/extra-cli ## Run pytest (tests, docstring examples, README) and stubtest
	@$(MAKE) --no-print-directory develop
	$(BIN)/python -m pytest $(PYTEST_FLAGS)
	$(BIN)/python -m mypy.stubtest tiermem_fast._core

.PHONY: test-slow
test-slow: ## Run the slow tests only
	@$(MAKE) --no-print-directory test-python PYTEST_FLAGS="-m slow $(PYTEST_FLAGS)"

.PHONY: lint
lint: $(STAMPS)/extra-dev $(STAMPS)/extra-cli ## Check format, lints, types and stubs of both languages
	$(CARGO) fmt --all --check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(CARGO) clippy --workspace --all-targets $(CARGO_FLAGS) -- -D warnings
	@$(MAKE) --no-print-directory develop
	$(BIN)/python -m mypy
	$(BIN)/python -m mypy.stubtest tiermem_fast._core

.PHONY: fmt
fmt: $(STAMPS)/extra-dev ## Format both languages and apply the safe fixes
	$(CARGO) fmt --all
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: bench
bench: $(STAMPS)/extra-bench ## Measure the short set beside usearch, numpy, faiss, bm25s, tantivy and raw SQLite
	@$(MAKE) --no-print-directory develop PROFILE=release
	$(BIN)/python benches/run.py $(BENCH_FLAGS)

.PHONY: bench-full
bench-full: $(STAMPS)/extra-bench ## Measure with a million memories, other memory libraries, and the kernels under criterion
	@$(MAKE) --no-print-directory develop PROFILE=release
	$(BIN)/python benches/run.py --full $(BENCH_FLAGS)
	$(BIN)/python benches/run_peers.py
	$(CARGO) bench -p tiermem-bench $(CARGO_FLAGS)

.PHONY: wheel
wheel: $(STAMPS)/venv ## Build the abi3 wheel into dist/
	$(BIN)/maturin build --release $(CARGO_FLAGS) --out dist

.PHONY: sdist
sdist: $(STAMPS)/venv ## Build the source distribution into dist/
	$(BIN)/maturin sdist --out dist

.PHONY: check-wheel
check-wheel: wheel ## Install the wheel into an empty environment and use it there
	$(BIN)/python .ci/check_wheel.py dist

.PHONY: develop
develop: $(STAMPS)/develop-$(PROFILE) ## Build the native module (PROFILE=dev|perf|release) and install in editable form

.PHONY: clean
clean: ## Remove what was built, the environment included
	$(CARGO) clean
	if [ -d "$(STAMPS)" ]; then rm -rf -- "$(VENV)"; fi
	rm -rf dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/tiermem_fast/_core*.so python/tiermem_fast/_core*.pyd
	find python tests benches -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/venv: pyproject.toml
	@command -v $(CARGO) >/dev/null || { echo "error: cargo was not found; install Rust (https://rustup.rs)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"error: Python 3.11 or newer is needed, this is {sys.version.split()[0]}; say which with PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	@mkdir -p $(STAMPS) && touch $@

# The requirements of one extra, without building the package that names them.
$(STAMPS)/extra-%: pyproject.toml $(STAMPS)/venv
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$*"], sep="\n")' > $@.txt
	$(PIP) install --requirement $@.txt
	@touch $@

# Only one profile can be the installed one: its stamp replaces the others.
$(STAMPS)/develop-$(PROFILE): pyproject.toml $(RUST_SOURCES) $(STAMPS)/venv
	@rm -f $(STAMPS)/develop-*
	VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/maturin develop --profile $(PROFILE) $(CARGO_FLAGS) $(MATURIN_FLAGS)
	@touch $@
