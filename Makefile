# Every target sets up .venv by itself when it is missing or older than what it is made from.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
DEMO_TAG := demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: venv demo test test-fast check bench short-study clean

venv: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Ratchet needs Python 3.10 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[agents]' 2>/dev/null || echo "The Claude and Codex command lines cannot be installed here: the tests that run them are skipped. To see why: $(BIN)/python -m pip install '.[agents]'"
	@touch $@

demo: venv  ## data, baseline and eight trials on the embedded corpus; offline once installed
	$(BIN)/python prepare.py --profile cpu
	$(BIN)/ratchet run --tag $(DEMO_TAG) --program examples/demo/program.md --proposer search --seed 1
	@echo; echo "results.tsv   progress.png   runs/$(DEMO_TAG)/report.md   git log autoresearch/$(DEMO_TAG)"

test: venv
	$(BIN)/python -m pytest -n $(WORKERS) -m "not torch" --cov=harness --cov-report=term:skip-covered
	$(BIN)/python -m pytest -m torch

test-fast: venv  ## what needs no torch: a minute on two cores
	$(BIN)/python -m pytest -n $(WORKERS) -m "not torch and not slow"

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

short-study: venv  ## the smallest real study: one baseline reading, two trials
	$(BIN)/python prepare.py --profile cpu
	$(BIN)/ratchet run --tag short-$(shell date +%Y%m%d-%H%M%S) --program examples/short/program.md --proposer search --seed 1

bench: venv
	$(BIN)/python bench/overhead.py
	$(BIN)/python bench/views.py
	$(BIN)/python bench/briefing.py
	$(BIN)/python bench/loader.py
	$(BIN)/python bench/detectors.py
	$(BIN)/python bench/correction.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
