# make run: the notebooks executed, pages in build/.  make test: the tests, then strict nbval.
# PIP_FLAGS goes to pip: another torch build is --extra-index-url with the address PyTorch gives.
PYTHON ?= python3
PIP_FLAGS ?=
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
# pip's output as a few lines of progress; errors pass through
TELL := awk '/^Collecting/ {if (++n % 10 == 0) {print "setup: " n " packages found"; fflush()}} \
	/^ *Downloading.*torch-/ {print "setup: downloading torch"; fflush()} \
	/^Installing collected/ {print "setup: installing " n " packages"; fflush()} \
	/ERROR|error:|not find/ {print; fflush()}'
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: run test test-full lab notebooks upstream lint clean
.DEFAULT_GOAL := run

$(STAMP): pyproject.toml constraints.txt
	@echo "setup: virtual environment in $(VENV) (about 1.4 GB with torch; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "setup: Python 3.11 or newer is needed (PYTHON=...)")'
	@$(PYTHON) -m venv $(VENV) || { echo "setup: no venv module; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --progress-bar off $(PIP_FLAGS) -c constraints.txt -e '.[test]' 2>&1 | $(TELL)
	@touch $@

run: $(STAMP)
	@$(BIN)/python -m eagerbuf.pages run

# one run over both: a file or a notebook goes whole to one of two workers
CHECK := PLOTLY_RENDERER=plotly_mimetype $(BIN)/python -m pytest -q --nbval --nbval-current-env -n 2 --dist loadfile

test: $(STAMP) lint
	@echo "test: every cell of notebooks/ against its stored output, and tests/"
	@$(CHECK) -m "not slow" notebooks tests

test-full: $(STAMP) lint
	@echo "test-full: the same with the slow tests (ten minutes or more)"
	@$(CHECK) notebooks tests

lint: $(STAMP)
	@echo "lint: ruff, mypy (half a minute the first time)"
	@$(BIN)/ruff check -q . && $(BIN)/ruff format --check -q . && $(BIN)/mypy --no-error-summary

lab: $(STAMP)
	@echo "lab: JupyterLab into $(VENV)"
	@$(BIN)/python -m pip install -q $(PIP_FLAGS) -c constraints.txt -e '.[lab]'
	@$(BIN)/jupyter lab notebooks

notebooks: $(STAMP)
	@echo "notebooks: kaleido into $(VENV); it needs a Chromium (BROWSER_PATH names it)"
	@$(BIN)/python -m pip install -q $(PIP_FLAGS) -c constraints.txt -e '.[static]'
	@$(BIN)/python -m eagerbuf.pages save

upstream: $(STAMP)
	@$(BIN)/python -m tests.upstream $(if $(RELEASE),report $(RELEASE))

clean:
	rm -rf build $(VENV)
