# Every target creates its environment in .venv from the lock file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test quick days torture mutants fuzz check bench compare docs samples package clean lock env

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Pregão needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Choose another with: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

env: $(STAMP)

# Programs that read our exports, in a separate environment because they need another numpy. If
# they cannot be installed, the tests of exports skip them with a message.
CONSUMERS := .venv-consumers
CONSUMERS_STAMP := $(CONSUMERS)/.installed

$(CONSUMERS_STAMP): requirements-consumers.lock
	$(PYTHON) -m venv $(CONSUMERS)
	@$(CONSUMERS)/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 --no-deps --require-hashes -r requirements-consumers.lock \
		|| { echo "hftbacktest and NautilusTrader cannot be installed here: exports are tested without them."; rm -rf $(CONSUMERS); mkdir -p $(CONSUMERS); }
	@touch $(CONSUMERS_STAMP)

demo: $(STAMP)
	$(BIN)/pregao warm
	$(BIN)/pregao demo

# Three processes on two cores if memory allows: tests wait for a third of their time.
test: $(STAMP) $(CONSUMERS_STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The fast tests, without Java; two minutes.
quick: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not spark and not slow"

# The whole market of a thousand seeds under faults, every twentieth also in a lake. Before that, a
# thousand small days with lost, duplicated and reordered packets: compares every book called valid
# or empty with the exchange's, and the fast path with the Python channel.
SEEDS ?= 1000
days: $(STAMP)
	PREGAO_CHANNEL_DAYS=1000 $(BIN)/python -m pytest -n 2 tests/feed/test_feed_channel_days.py \
		tests/feed/test_feed_fastpath.py
	$(BIN)/python -m tests.torture --seed 0 --seeds $(SEEDS) --processes 2 --quiet

# The whole market of one seed under faults: make torture SEED=17
SEED ?= 0
torture: $(STAMP)
	$(BIN)/python -m tests.torture --seed $(SEED) --lake

# Plants small faults, chosen by a seed, and reports which ones the tests notice; results accumulate
# in build/mutants. make mutants MINUTES=10 MUTANTS="--seed 3 --package sbe --count 20"
MINUTES ?= 60
MUTANTS ?=
mutants: $(STAMP)
	$(BIN)/python -m tests.mutants --minutes $(MINUTES) $(MUTANTS)

# Runs the kernels on damaged bytes with bounds checks; these kernels have their own cache.
fuzz: $(STAMP)
	NUMBA_BOUNDSCHECK=1 PREGAO_FUZZ_CASES=$${PREGAO_FUZZ_CASES:-2000} $(BIN)/python -m pytest \
		tests/fuzzing

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Runs the samples, then builds the site in site/index.html; a broken link is an error.
docs: samples
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Runs the samples of the documents, and replaces output that differs.
samples: $(STAMP)
	$(BIN)/python packaging/samples.py --write

# Builds the wheel and the source distribution, checks what an index checks, and tests them in fresh
# environments.
package: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python packaging/check_metadata.py dist
	$(BIN)/python packaging/try_package.py dist

bench: $(STAMP)
	$(BIN)/python -m bench

# Compares twelve rates of this checkout and a commit, in alternation: make compare BASE=HEAD~3
BASE ?= HEAD
compare: $(STAMP)
	$(BIN)/python -m bench.compare $(BASE)

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header

# Rewrites the lock files for every supported platform and Python; needs `uv` on the PATH.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --group dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --output-file requirements-consumers.lock requirements-consumers.in
	echo hftbacktest | $(COMPILE) --no-deps - >> requirements-consumers.lock

clean:
	rm -rf $(VENV) $(CONSUMERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
