# Every target sets up what it needs. `make` alone shows this list.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 60
# Options of scripts/slow_tests.py: --resume, --any-revision, --summary FILE, words of test ids.
SLOW ?=
# Of `make demo`: another model of `threegate model list`, or none; and where the reports go.
MODEL ?=
KEEP ?= $(CURDIR)/dist/demo
# What the default policy names, and what the tests start. They lie in the user's cache, by digest.
ANSWERS := qwen2.5-coder-1.5b-instruct-q4_k_m
VECTORS := all-minilm-l6-v2
SMALLEST := smollm2-135m-instruct-q4_1
WORLD := tests.support.origins.scholarly:world
THREEGATE_CORPUS ?= ../shared/corpus

export PYTHON VENV
export PYTHONDONTWRITEBYTECODE := 1

# A part of the tree that a target needs: $(call need,PATH)
need = @test -e $(1) || { echo "threegate: error: $(1) is missing, so make $@ has nothing to run" >&2; exit 69; }

.PHONY: help setup setup-tests check demo test lint format docs corpus slow live-test fuzz bench evaluate bundle lock clean

help: ## show this list
	@echo 'make TARGET, one of:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
	@echo 'PYTHON=/usr/bin/python3 chooses the interpreter, 3.11 or newer.'

setup: ## make .venv from the hash-locked requirements
	@bash scripts/setup.sh

setup-tests: ## the same, and what only the tests start: podman, nftables, Squid, Chromium, QEMU
	@bash scripts/setup.sh tests

check: setup ## lint, types and unit tests; no root, podman, browser or model
	@bash scripts/check.sh

demo: setup ## a research session with a real model, on a test internet; MODEL=none saves the 1.2 GB
	$(call need,examples/first-session.sh)
ifneq ($(MODEL),none)
	@$(BIN)/threegate model pull $(or $(MODEL),$(ANSWERS)) $(VECTORS) || \
	  echo 'threegate: going on without what did not come' >&2
endif
	@PATH="$(CURDIR)/$(BIN):$$PATH" MODEL="$(MODEL)" KEEP="$(KEEP)" \
	  $(BIN)/python -m tests.support.internet $(WORLD) bash examples/first-session.sh

test: setup-tests lint ## lint, then every test but the slow ones and the corpus
	@bash scripts/setup.sh models $(SMALLEST) $(VECTORS)
	@bash scripts/test.sh

lint: setup ## format, rules, types, import contracts, shape, documents in sync
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check_shape.py
	$(BIN)/python scripts/docs_sync.py --check

format: setup ## rewrite the code in the project's format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: setup ## rewrite the generated blocks of the documents, and infra/
	$(BIN)/python scripts/docs_sync.py
	THREEGATE_WRITE_GOLDEN=1 $(BIN)/pytest -q tests/contract/test_infra.py -k generates

corpus: setup ## offer every hostile file of THREEGATE_CORPUS to the parsers
	THREEGATE_CORPUS="$(THREEGATE_CORPUS)" $(BIN)/pytest tests/corpus

slow: setup-tests ## the tests that take minutes or the network; SLOW=--resume continues a run
	@bash scripts/setup.sh models $(ANSWERS) $(SMALLEST) $(VECTORS)
	@$(BIN)/python scripts/slow_tests.py $(SLOW)

live-test: setup ## fetch one DOI, one arXiv id and one page from the real web
	$(BIN)/python scripts/live_test.py

fuzz: setup ## coverage-guided fuzzing of every parser, FUZZ_SECONDS each
	$(call need,tests/fuzz/run.py)
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)

bench: setup-tests ## measure against peers; `bench/run.py --write` puts the figures into docs/performance.md
	$(call need,bench/run.py)
	$(BIN)/python bench/run.py

evaluate: setup ## ask the embedded model the questions of bench/evaluation; goes on where it was
	$(call need,bench/evaluate.py)
	$(BIN)/python bench/evaluate.py

bundle: setup ## one archive that installs ThreeGate without a network
	$(BIN)/python scripts/bundle.py

lock: ## resolve requirements/*.in again, with hashes for every platform
	@bash scripts/lock.sh

clean: ## remove what the targets made, .venv included
	rm -rf $(VENV) .venv-lock .setup.lock .setup.log dist .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
