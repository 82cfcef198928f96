# From a bare clone, with Python 3.10 to 3.13, venv and make:
#   make lab         open the lessons in JupyterLab; ARGS="--no-browser --port 8899" are passed on
#   make test        lint, import layers, unit tests, doctests, stored lessons, browser tests
#   make setup       the environment in .venv, which the others make when it is needed
#   make notebooks   build the lessons from their sources; NB="03 04" only those
#   make modes       docs/modes.md: what each op can do, and what it raises
#   make screenshots pictures of the lessons, wide and narrow, light and dark, at single and
#                    double density, in SHOTS; NB="03 04" only those
#   make bench       ratios against peers, in one run
#   make bench-browser  from key press to paint: explorers beside ipympl, bqplot and plotly, which
#                    live in .venv-bench; ARGS=--write puts the table into benchmarks/README.md
#   make lint        ruff and the import layers; make format mends what can be mended
#   make lock        follow pyproject.toml in requirements/ and environment.yml; ARGS=--upgrade
#                    for the newest versions
#   make clean       away with .venv and the caches
# DEVICE=cpu or DEVICE=gpu overrides the look for an NVIDIA GPU; PYTHON=python3.12 the Python;
# WORKERS=4 runs the tests in four processes rather than two.

.DEFAULT_GOAL := help

PYTHON := python3
DEVICE := $(shell nvidia-smi -L 2>/dev/null | grep -q GPU && echo gpu || echo cpu)
ARGS :=
NB :=
WORKERS := 2
SHOTS := build/screenshots

VENV := .venv
RUN := $(VENV)/bin/python -m
LOCK := requirements/$(DEVICE).txt
STAMP := $(VENV)/installed-$(DEVICE)
OTHER_STAMPS := $(filter-out $(STAMP),$(wildcard $(VENV)/installed-*))
PIP := $(RUN) pip --disable-pip-version-check
# A server started by root listens to this machine only, and asks for its token as any other.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# The browser tests ask axe-core what can't be read aloud; without npm that one test is skipped.
AXE := $(if $(shell command -v npm),tests/browser/node_modules/.package-lock.json)

.PHONY: help lab test setup notebooks modes screenshots bench bench-browser lint format lock clean

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

lab: setup
	$(RUN) jupyterlab $(AS_ROOT) --ServerApp.root_dir=notebooks $(ARGS)

test: lint $(AXE)
	$(RUN) pytest -n $(WORKERS) --dist loadfile --nbval --nbval-sanitize-with=tests/nbval_sanitize.cfg \
		--nbval-cell-timeout=120 --durations=10 gradlab tests README.md notebooks $(ARGS)

setup: $(STAMP)

# The two TensorFlows, with CUDA and without, share a folder: changing over starts afresh.
$(STAMP): $(LOCK) pyproject.toml | $(VENV)/bin/python
	$(if $(OTHER_STAMPS),$(PYTHON) -m venv --clear $(VENV))
	$(PIP) install --require-hashes -r $(LOCK)
	$(PIP) install --no-deps --no-build-isolation -e .
	@# matplotlib lists the fonts once, and would say so in the first lesson.
	$(VENV)/bin/python -c "import matplotlib.font_manager"
	touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || { \
		echo "gradlab needs Python 3.10 to 3.13, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
			"Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Making $(VENV) for the $(DEVICE): a few minutes, once."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "No venv in $(PYTHON). On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

tests/browser/node_modules/.package-lock.json: tests/browser/package-lock.json
	npm ci --prefix tests/browser --ignore-scripts --no-audit --no-fund
	touch $@

notebooks: setup
	$(RUN) tools.notebooks $(NB)

modes: setup
	$(RUN) tools.modes

screenshots: setup
	$(RUN) tools.screenshots $(SHOTS) $(NB)

bench: setup
	$(RUN) benchmarks $(ARGS)

bench-browser:
	@$(MAKE) --no-print-directory setup VENV=$(VENV)-bench DEVICE=bench
	$(VENV)-bench/bin/python -m benchmarks.browser $(ARGS)

lint: setup
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(VENV)/bin/lint-imports --no-logo

format: setup
	$(RUN) ruff check --fix
	$(RUN) ruff format

lock: setup
	$(RUN) tools.lock $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-bench tests/browser/node_modules build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
