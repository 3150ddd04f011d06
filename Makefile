# Needs git, make and Python 3.11 or newer with venv; everything else is installed below .venv and .perdure.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Without kept bytecode each of hundreds of processes compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?=
HELM ?= .perdure/tools/helm
# Parallel test processes; two cores are fullest with three, since tests wait for servers.
TEST_WORKERS ?= 3
SEEDS ?= 1000
FROM ?= 0
JOBS ?= 1

BIN := .venv/bin
UV := .perdure/uv/bin/uv
STAMPS := .perdure/stamps
CHART := deploy/helm/perdure
PEERS := tests/bench/peers
PROTOS := $(shell find proto -name '*.proto')
MEMBERS := $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)
has_python = $(shell find $(1) -name '*.py' -print -quit)
PYTHON_ROOTS := $(foreach folder,libs services tools tests examples,$(if $(call has_python,$(folder)),$(folder)))

# ---- set up

.PHONY: help setup generate
help: ## Print this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/contracts ## Install the tools and every member, generate the contracts; fast when nothing changed.

generate: $(STAMPS)/sync ## Generate libs/contracts from proto/, whether or not it changed.
	@$(BIN)/python tools/generate_contracts.py && touch $(STAMPS)/contracts

$(STAMPS)/uv: tools/bootstrap_uv.sh tools/uv-requirements.txt
	@echo "setup: uv" && mkdir -p $(STAMPS) && tools/bootstrap_uv.sh .perdure/uv $(PYTHON) && touch $@

$(STAMPS)/sync: $(STAMPS)/uv uv.lock pyproject.toml $(MEMBERS)
	@echo "setup: packages of uv.lock" \
		&& UV_PYTHON_DOWNLOADS=never $(UV) sync --quiet --frozen --compile-bytecode --python .perdure/uv/bin/python && touch $@

$(STAMPS)/contracts: $(STAMPS)/sync $(PROTOS) buf.yaml buf.gen.yaml tools/generate_contracts.py tools/protoc_gen_grpc_python.py
	@echo "setup: contracts" && $(BIN)/python tools/generate_contracts.py && touch $@

.perdure/tools/helm: tools/fetch_helm.py | $(STAMPS)/sync
	@echo "setup: helm" && $(BIN)/python tools/fetch_helm.py

# ---- check

CHECKS := format lint types imports buf-lint proto-breaking fail-point-lint code-rules helm-lint helm-render docs-check openapi-check

.PHONY: check format proto $(CHECKS)
check: setup $(HELM) ## Run every check: format, lint, types, imports, protos, own lints, chart, docs.
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target $(CHECKS)

format: setup ## Fail on code that `make fix` would reformat.
	@$(BIN)/ruff format --check --quiet $(PYTHON_ROOTS) && echo "format: ok"

lint: setup ## Run ruff's rules.
	@$(BIN)/ruff check --quiet $(PYTHON_ROOTS) && echo "lint: ok"

types: setup ## Run mypy, strict, on everything.
	@$(BIN)/mypy $(PYTHON_ROOTS)

imports: setup ## Check who may import whom.
	@$(BIN)/lint-imports --no-logo

buf-lint: setup ## Lint the protos.
	@$(BIN)/buf lint && $(BIN)/buf format --diff --exit-code proto && echo "buf-lint: ok"

fail-point-lint: setup ## Check that every commit, stream command and RPC send goes through a fail point.
	@$(BIN)/python -m tools.lint_fail_points

code-rules: setup ## Check the pure machine, sleepless tests and the length of files.
	@$(BIN)/python -m tools.lint_code_rules

helm-lint: setup $(HELM) ## Lint the chart.
	@$(HELM) lint --strict --quiet $(CHART) --values $(CHART)/ci/minimal-values.yaml && echo "helm-lint: ok"

helm-render: setup $(HELM) ## Render the chart with each ci/ values file and validate the manifests offline.
	@$(BIN)/python -m tools.render_chart --helm $(HELM)

docs-check: setup ## Check that each folder has its README, each link its target, each setting its line.
	@$(BIN)/python -m tools.lint_docs && $(BIN)/python -m perdure_runtime.config_reference --check

openapi-check: setup ## Check that the OpenAPI document is what the protos say.
	@$(BIN)/python -m tools.write_openapi --check

.PHONY: fix schema openapi
fix: setup ## Reformat code and protos, apply ruff's safe repairs.
	@$(BIN)/ruff format $(PYTHON_ROOTS); $(BIN)/ruff check --fix $(PYTHON_ROOTS); $(BIN)/buf format --write proto

proto: generate buf-lint ## Generate and lint the protos.

schema: setup ## Write migrations/schema.sql anew from the migrations.
	@$(BIN)/python -m tools.write_schema

openapi: setup ## Write the OpenAPI document anew from the protos.
	@$(BIN)/python -m tools.write_openapi

proto-breaking: setup ## Compare the protos with those of the newest tag.
	@$(BIN)/python -m tools.proto_breaking

# ---- test

.PHONY: test test-all simulate bench bench-ablation bench-load bench-peers ci
test: setup $(HELM) ## Run the tests, without those marked long.
	@$(BIN)/pytest -n $(TEST_WORKERS) -m "not long" $(ARGS)

test-all: setup $(HELM) ## Run all tests.
	@$(BIN)/pytest -n $(TEST_WORKERS) $(ARGS)

simulate: setup ## Simulate SEEDS seeds from seed FROM on in JOBS processes; print the first that breaks a law.
	@$(BIN)/python -m perdure_testkit.simulation --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS) $(ARGS)

bench: setup ## Measure the embedded stack: a table and a line of JSON; QUICK=1 is brief, LONG=1 long, ONLY=key,key.
	@$(BIN)/python -m tests.bench.bench $(if $(QUICK),--quick) $(if $(LONG),--long) $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench-ablation: setup ## Measure the hot path with each of its techniques switched off in turn; QUICK=1 is brief.
	@$(BIN)/python -m tests.bench.ablation $(if $(QUICK),--quick)

bench-load: setup ## Measure what a step costs each process, the log and each table; ONLY=chains,jobs,push.
	@$(BIN)/python -m tests.bench.load $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench-peers: setup $(STAMPS)/peers ## Run chains and jobs on other engines too, in turns with ours; QUICK=1 is brief, ONLY=name,name.
	@$(BIN)/python -m tests.bench.peers.compare $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(ARGS)

$(STAMPS)/peers: $(PEERS)/requirements.txt $(PEERS)/package.json | $(STAMPS)/sync
	@echo "setup: peers" && mkdir -p .perdure/peers && cp $(PEERS)/package.json .perdure/peers \
		&& $(UV) venv --quiet --clear --python .perdure/uv/bin/python .perdure/peers/venv \
		&& $(UV) pip install --quiet --python .perdure/peers/venv/bin/python -r $(PEERS)/requirements.txt
	@cd .perdure/peers && { command -v npm >/dev/null && npm install --silent --ignore-scripts --no-audit --no-fund \
		|| echo "setup: no npm, so without restate"; }
	@touch $@

ci: ## What continuous integration runs: check, then test.
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test

# ---- run

.PHONY: demo up down clean
demo: setup ## Run the demo workflow through six services on an embedded PostgreSQL and Valkey.
	@$(BIN)/python -m examples.demo_follow_up.demo

up: setup ## Start the same stack and keep it running until Ctrl-C.
	@$(BIN)/perdure dev

down: ## Stop a stack that was left running.
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m perdure_stack down; fi

clean: ## Stop a stack that runs here; remove all that was installed, generated or stored.
	-@$(MAKE) --no-print-directory down
	rm -rf .venv .perdure .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find libs/contracts/perdure_contracts -mindepth 1 ! -name py.typed -delete
