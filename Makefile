# Every target sets up what it needs on the first call; later calls take seconds. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
DEPS := $(VENV)/.weir-deps
EXT := $(VENV)/.weir-ext
PROGRAMS := python/weir/bin/.built
READY := $(EXT) $(PROGRAMS)
RUST := $(shell find crates cc -type f \( -name '*.rs' -o -name '*.c' -o -name '*.h' -o -name '*.toml' \) 2>/dev/null)
C := $(filter %.c %.h,$(RUST)) $(wildcard lab/*/*.c lab/*/*/*.[ch])

# All crates but the one whose C library is missing here; asked when it is used, because setup may have installed it.
WORKSPACE = --workspace $(shell scripts/can-build-bpf || echo --exclude weir-bpf)

# One interpreter for every cargo call, or PyO3 would be rebuilt each time.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# Where rustup puts cargo; a shell that was not started anew does not look there.
export PATH := $(PATH):$(HOME)/.cargo/bin

# Property tests draw the same cases every time; `PROPTEST_RNG_SEED=` (or another number) draws others.
export PROPTEST_RNG_SEED ?= 2006

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

.PHONY: setup
setup: $(READY) ## .venv with everything, the extension and the programs built

$(DEPS): pyproject.toml scripts/setup scripts/requirements.py
	@scripts/setup
	@touch $@

$(EXT): $(DEPS) $(RUST) Cargo.toml Cargo.lock
	@echo '==> building the simulator (release; a few minutes the first time)' >&2
	@. $(BIN)/activate && PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 maturin develop --release
	@touch $@

# One folder of builds serves both, so that neither rebuilds what the other did; not at once, or cargo would wait.
$(PROGRAMS): $(DEPS) $(RUST) Cargo.toml Cargo.lock scripts/binaries | $(EXT)
	@scripts/binaries
	@touch $@

.PHONY: demo
demo: $(READY) ## six TCP variants at full scale and a report to look at; then the methods of this machine, compared
	@$(BIN)/weir run demo --method sim --no-verdict --out runs/demo
	@$(BIN)/python scripts/demo.py
	@echo "Open runs/demo/report.html in a browser."

.PHONY: test
test: test-crates ## all tests, Rust then Python
	@echo '==> pytest' >&2
	@scripts/test

.PHONY: test-crates
test-crates: $(READY) ## the tests in Rust
	@echo '==> cargo test' >&2
	@cargo test $(WORKSPACE) --exclude weir-py --quiet

.PHONY: check
check: $(EXT) ## formatting, lints, types, and documents that are generated
	@echo '==> rustfmt' >&2; cargo fmt --all --check
	@echo '==> clippy' >&2; cargo clippy $(WORKSPACE) --all-targets --quiet -- -D warnings
	@echo '==> rustdoc' >&2; RUSTDOCFLAGS='-D warnings' cargo doc $(WORKSPACE) --no-deps --quiet
	@echo '==> clang-format' >&2; $(if $(C),$(BIN)/clang-format --dry-run --Werror $(C))
	@echo '==> ruff' >&2; $(BIN)/ruff check && $(BIN)/ruff format --check
	@echo '==> mypy' >&2; $(BIN)/mypy
	@echo '==> generated documents' >&2; $(BIN)/python scripts/docs.py --check

.PHONY: format
format: $(DEPS) ## formats everything
	@cargo fmt --all
	@$(if $(C),$(BIN)/clang-format -i $(C))
	@$(BIN)/ruff check --fix --quiet; $(BIN)/ruff format --quiet

.PHONY: docs
docs: $(EXT) ## writes the documents that are generated from code
	@$(BIN)/python scripts/docs.py
	@cargo doc $(WORKSPACE) --no-deps --quiet

.PHONY: lab
lab: $(READY) ## the lab: the real Linux kernel in virtual time; some minutes, once
	@$(BIN)/weir lab build

.PHONY: fidelity
fidelity: $(READY) ## fails when the simulator is farther from Linux than docs/validation says; minutes where the lab is built
	@$(BIN)/weir revalidate docs/validation/grid-sim-lab.json
	@if $(BIN)/python -c 'import sys, weir.lab; sys.exit(weir.lab.unavailable() is not None)'; then \
		$(BIN)/weir revalidate docs/validation/grid-sim-lab.json --cells 12 --method sim,lab; \
	else \
		echo 'The lab is not built (make lab): the reference was not executed anew.'; \
	fi

.PHONY: bench
bench: $(READY) ## how fast the simulator is here, as root the emulator and the agent too; JSON in benches/results/
	@$(BIN)/python benches/run.py $(ARGS)
	@if [ "$$(id -u)" = 0 ]; then \
		$(BIN)/python benches/emulator.py --quick && $(BIN)/python benches/agent.py --quick; \
	else \
		echo 'Without benches/emulator.py and benches/agent.py: they need root.'; \
	fi

.PHONY: catalogue
catalogue: $(EXT) ## runs the quick version of every scenario of the catalogue
	@$(BIN)/python scripts/catalogue.py

.PHONY: claims
claims: $(READY) ## executes what docs/claims.md lacks, hours in all, and writes it; ARGS='--list' says what that is
	@$(BIN)/python scripts/claims.py $(ARGS)

.PHONY: responses
responses: $(EXT) ## measures the response function and the fairness of every congestion control, some minutes
	@$(BIN)/python scripts/responses.py $(ARGS)
	@$(BIN)/python scripts/docs.py

.PHONY: fuzz
fuzz: $(READY) ## mutated scenarios for the parser and compiler, damaged runs for what reads them, kills for what executes them
	@$(BIN)/python fuzz/fuzz_scenario.py --runs $(or $(RUNS),2000)
	@$(BIN)/python fuzz/fuzz_run.py --folders 30 --fields 60 --bits 30
	@$(BIN)/python fuzz/fuzz_kills.py --kills 12

.PHONY: wheel
wheel: $(DEPS) $(PROGRAMS) ## a wheel in dist/, with the catalogue, the programs and the congestion controls' sources in it
	@trap 'rm -rf python/weir/catalogue python/weir/cc python/weir/lab/sources python/weir/validation' EXIT; \
	rm -rf python/weir/catalogue python/weir/cc python/weir/lab/sources python/weir/validation; \
	cp -r scenarios python/weir/catalogue; \
	for source in cc/registry.txt cc/*/*.[ch]; do install -D -m 644 $$source python/weir/$$source; done; \
	cp -r lab python/weir/lab/sources; \
	for results in docs/validation/*.json; do \
		[ ! -e $$results ] || install -D -m 644 $$results python/weir/validation/$${results##*/}; \
	done; \
	. $(BIN)/activate && maturin build --release --quiet --out dist
	@ls dist/*.whl

.PHONY: clean
clean: ## removes what can be rebuilt, but no run
	@rm -rf target build dist $(VENV) python/weir/*.so python/weir/bin .pytest_cache .ruff_cache .mypy_cache .hypothesis
