# make run: the notebooks executed, pages in build/.  make test: the tests, then strict nbval.
# PIP_FLAGS goes to pip: another torch build is --extra-index-url with the address PyTorch gives.
PYTHON ?= python3
PIP_FLAGS ?=
FUZZ_S ?= 60
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PIP = $(BIN)/python -m pip install --progress-bar off $(PIP_FLAGS)
# exact versions, each file's hash checked, nothing built on this machine
LOCKED = $(PIP) --only-binary :all: --require-hashes -r
# pip's output as a few lines of progress; errors pass through
TELL := awk '/^Collecting/ {if (++n % 10 == 0) {print "setup: " n " packages found"; fflush()}} \
	/^ *Downloading.*torch-/ {print "setup: downloading torch"; fflush()} \
	/^Installing collected/ && n {print "setup: installing " n " packages"; fflush(); n = 0} \
	/ERROR|error:|not find/ {print; fflush()}'
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1

EXTRAS := test bench lab static mutants fuzz browser

.PHONY: run engine test test-full triton gpu gpu-wheels browser bench lab notebooks fuzz upstream lint mutants lock oldest clean
.DEFAULT_GOAL := run

# torch is pinned by version alone (its builds differ by machine); the package itself comes last
$(STAMP): pyproject.toml constraints.txt locks/test.txt
	@echo "setup: virtual environment in $(VENV) (about 1.4 GB with torch; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 2) and "setup: Python 3.11.2 or newer is needed (PYTHON=...)")'
	@$(PYTHON) -m venv $(VENV) || { echo "setup: no venv module; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@{ $(LOCKED) locks/test.txt && $(PIP) -c constraints.txt torch && $(PIP) --no-deps --no-build-isolation -e .; } 2>&1 | $(TELL)
	@touch $@

run: $(STAMP)
	@$(MAKE) -s engine || echo "run: without SGLang itself notebooks show what was recorded of it"
	@$(BIN)/python -m notebooks.site run

# in folders of its own; RELEASES=all: every release with an eager runner, not only the needed ones
engine: $(STAMP)
	@$(BIN)/python -m eagerbuf.engine.install $(RELEASES)

# one run over both: a file or a notebook goes whole to one of two workers
CHECK := PLOTLY_RENDERER=plotly_mimetype $(BIN)/python -m pytest -q --nbval --nbval-current-env -n 2 --dist loadfile

test: $(STAMP) lint
	@echo "test: every cell of notebooks/ against its stored output, and tests/"
	@$(CHECK) -m "not slow" notebooks tests

test-full: $(STAMP) lint
	@echo "test-full: the same with the slow tests (ten minutes or more)"
	@$(CHECK) notebooks tests

browser: $(STAMP)
	@echo "browser: playwright and JupyterLab into $(VENV); every page, and the controls, in a Chromium"
	@$(LOCKED) locks/browser.txt -q && $(LOCKED) locks/lab.txt -q
	@EAGERBUF_BROWSER=required $(BIN)/python -m pytest -q tests/project/test_browser.py $(if $(LAB),tests/project/test_lab.py)

lint: $(STAMP)
	@echo "lint: ruff, mypy (half a minute the first time)"
	@$(BIN)/ruff check -q . && $(BIN)/ruff format --check -q . && $(BIN)/mypy --no-error-summary

# beside the environment, not in it: SGLang on a CPU must not find triton
triton: $(STAMP)
	@echo "triton: into .triton (190 MB to download), to compile for a GPU without one"
	@[ -d .triton/triton ] || { $(LOCKED) locks/triton.txt -q --no-deps --target .triton; }

gpu: $(STAMP)
	@echo "gpu: every part on this machine's GPU into data/gpu.json, ten minutes at most"
	@$(BIN)/python -m eagerbuf.repro.gpu --out data/gpu.json

# For a machine without a network: copy this clone there, build/gpu-wheels with it, and run
# python3 -m eagerbuf.repro.gpu --wheels build/gpu-wheels
FOR_GPU = $(BIN)/python -m pip download -q --no-deps --only-binary :all: --require-hashes \
	--python-version 3.12 --implementation cp $(addprefix --platform manylinux_2_,34_x86_64 28_x86_64 17_x86_64)
gpu-wheels: $(STAMP)
	@echo "gpu-wheels: what a machine with Python 3.12, torch and pandas lacks, into build/gpu-wheels"
	@$(FOR_GPU) -d build/gpu-wheels -r locks/gpu.txt
	@$(FOR_GPU) -d build/gpu-wheels/engine -r locks/gpu-engine.txt

bench: $(STAMP)
	@echo "bench: goals measured, about three minutes; TRACE=file replays that trace"
	@$(LOCKED) locks/bench.txt -q
	@mkdir -p build
	@EAGERBUF_TRACE="$(TRACE)" $(BIN)/python -m pytest -q -p no:cacheprovider \
		-o python_files='bench_*.py' --benchmark-timer=tests.bench.clock.cpu \
		--benchmark-quiet --benchmark-json=build/bench.json tests/bench
	@$(BIN)/python -m tests.bench build/bench.json build

lab: $(STAMP)
	@echo "lab: JupyterLab into $(VENV)"
	@$(LOCKED) locks/lab.txt -q
	@$(BIN)/jupyter lab $$([ "$$(id -u)" != 0 ] || echo --allow-root) notebooks

notebooks: $(STAMP)
	@echo "notebooks: kaleido into $(VENV); it needs a Chromium (BROWSER_PATH names it)"
	@$(LOCKED) locks/static.txt -q
	@$(BIN)/python -m notebooks.site save

mutants: $(STAMP)
	@echo "mutants: every small change to the formulas must fail a test (an hour)"
	@$(LOCKED) locks/mutants.txt -q --no-deps
	@$(BIN)/python -m tests.mutants $(ROOMS)

fuzz: $(STAMP)
	@echo "fuzz: atheris into $(VENV); $(FUZZ_S) s for each reader"
	@$(LOCKED) locks/fuzz.txt -q
	@$(BIN)/python -m tests.fuzz $(FUZZ_S)

upstream: $(STAMP)
	@$(BIN)/python -m tests.upstream $(if $(RELEASE),report $(RELEASE))

# Every lock anew: the newest versions that go together on every platform and Python. Left out are
# torch with its CUDA, and yattag: cosmic-ray writes HTML with it, and it is no wheel.
UV := uv==0.13.9
FIND := $(if $(PIP_FIND_LINKS),--find-links $(PIP_FIND_LINKS))
COMPILE = $(BIN)/uv pip compile -q pyproject.toml --group build --universal --python-version 3.11.2 $(FIND) --no-header --no-annotate
lock: $(STAMP)
	@echo "lock: $(EXTRAS:%=locks/%.txt)"
	@$(PIP) -q $(UV) && mkdir -p build
	@$(COMPILE) --all-extras -c constraints.txt -o build/all.txt
	@for extra in $(EXTRAS); do $(COMPILE) --extra $$extra -c build/all.txt --generate-hashes \
		| awk '/^[a-z]/ {drop = /^(torch|triton|nvidia-|cuda-|yattag)/} !drop' > locks/$$extra.txt || exit 1; done
	@echo "lock: locks/engine.txt, without what locks/test.txt brings"
	@$(subst pyproject.toml --group build,locks/engine.in,$(COMPILE)) -c build/all.txt -c constraints.txt --generate-hashes \
		| awk 'NR == FNR {split($$1, pin, "=="); known[pin[1]]; next} \
			/^[a-z]/ {split($$1, pin, "=="); drop = pin[1] in known || /^(torch|triton|nvidia-|cuda-)/} !drop' \
			locks/test.txt - > locks/engine.txt

# the floor of pyproject.toml: the oldest Python, and each direct requirement's oldest version
oldest: PYTHON_OLDEST ?= python3.10
oldest: OLD := build/oldest
oldest: $(STAMP)
	@echo "oldest: $(PYTHON_OLDEST) and the oldest versions allowed in $(OLD) (several GB: torch)"
	@$(PIP) -q $(UV) && rm -rf $(OLD) && $(PYTHON_OLDEST) -m venv $(OLD)
	@$(BIN)/uv pip compile -q pyproject.toml --extra test --group build --resolution lowest-direct \
		--python-version 3.10 $(FIND) --no-header --no-annotate -o $(OLD)/oldest.txt
	@$(OLD)/bin/python -m pip install -q --only-binary :all: $(PIP_FLAGS) -r $(OLD)/oldest.txt
	@$(OLD)/bin/python -m pip install -q --no-deps --no-build-isolation -e .
	@$(subst $(BIN),$(OLD)/bin,$(CHECK)) -m "not slow" notebooks tests

clean:
	rm -rf build $(VENV)
