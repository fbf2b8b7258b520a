# Two commands for a fresh machine: `make demo` and `make test`. Both run `make setup` when it is needed.
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
SCRIPTS := Scripts
else
SCRIPTS := bin
endif
BIN := .venv/$(SCRIPTS)
TRY := .venv-try/$(SCRIPTS)
# Compiling all that is installed takes longer than installing it: modules are compiled, and kept, as they are imported.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup try demo paper test test-slow test-numeric test-lowest check size docs site bench release-check clean
setup: .venv/.ready

.venv/.ready: pyproject.toml
	@echo 'Installing all extras, torch with its GPU libraries among them, and what the tests need into .venv:'
	@echo 'some minutes and about 7 GB the first time. `make try` needs no torch and 400 MB.'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $@

# The light half, in an environment of its own, on the tables in examples/: is sigma true, and for whom not?
try:
	@echo 'Installing the light half into .venv-try (numpy, scipy, pyarrow; no torch): a minute, about 400 MB.'
	test -x $(TRY)/python || $(PYTHON) -m venv .venv-try
	$(TRY)/python -m pip install --quiet --no-compile --editable .
	$(TRY)/truesigma report --calibration examples/calibration.csv --test examples/test.csv --recalibrate isotonic -o try.html
	@echo 'Open try.html; then try your own table: $(TRY)/truesigma report --help'

demo: setup
	$(BIN)/truesigma demo --out demo-output

paper: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m paper all

# One thread each: the tests already run two at a time, and torch would start as many threads again. Tests of one file
# stay together, so that what they share is made once, until one of the two has nothing left to do.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# What needs neither torch nor a report: the part that other systems and the oldest versions are tried with.
NUMERIC := tests/core tests/metrics tests/recalibrate tests/files

test-numeric: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(NUMERIC)

test-lowest:
	rm -rf .venv-lowest && $(PYTHON) -m venv .venv-lowest
	$(PYTHON) .ci/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/$(SCRIPTS)/python -m pip install --quiet --constraint .venv-lowest/lowest.txt --editable '.[plot,report]'
	.venv-lowest/$(SCRIPTS)/python -m pip install --quiet --constraint .venv-lowest/lowest.txt pytest hypothesis
	.venv-lowest/$(SCRIPTS)/truesigma --version
	OMP_NUM_THREADS=1 .venv-lowest/$(SCRIPTS)/python -m pytest tests/metrics tests/recalibrate

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Builds what an index would get, reads its page, and installs each file into an empty environment.
release-check: setup
	rm -rf dist && $(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m build --quiet && $(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/installs.py dist

size:
	$(PYTHON) tests/support/code_lines.py

docs: setup
	$(BIN)/mkdocs serve

bench: setup
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .venv-lowest .venv-try try.html dist site demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
