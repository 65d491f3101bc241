# Two commands do everything:
#   make explain   a light environment (no torch), then the main job on two versions of one kernel
#   make test      everything that the tests need, then lint, types, layers and tests
#
# PYTHON   the interpreter that makes the environments (3.10 or newer)
# TORCH    what to install as torch: a requirement, `none` (leave it out), or `auto`:
#          a torch that PYTHON already has if there is one, else a CPU build
# TRITON   which Triton, for example TRITON='triton==3.9.0'

PYTHON ?= python3
TORCH ?= auto
TRITON ?= triton==3.6.0
VENV ?= .venv
LIGHT ?= .venv-light
WORKERS ?= 2

BIN := $(VENV)/bin
SOURCES := src tests cases benchmarks

.PHONY: explain env test test-all lint wheel bench clean

explain: $(LIGHT)/.ready
	$(LIGHT)/bin/tilewright explain cases/flash_attention/case.py:v0 cases/flash_attention/case.py:v1 --gpu rtx-4070-super

$(LIGHT)/.ready: pyproject.toml
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/pip install --quiet --disable-pip-version-check '$(TRITON)' -e .
	touch $@

env: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml requirements-dev.txt tools/make_env.sh
	PYTHON='$(PYTHON)' TORCH='$(TORCH)' TRITON='$(TRITON)' bash tools/make_env.sh '$(VENV)'
	touch $@

lint: env
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not slow'

# Adds the tests marked `slow`: full sweeps and long interpreter runs; each says in its name what it adds.
test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS)

bench: env
	$(BIN)/python benchmarks/explain.py

wheel: env
	$(BIN)/python -m build --wheel --outdir dist .

clean:
	rm -rf $(VENV) $(LIGHT) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
