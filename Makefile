# Every target makes its own environment in .venv from the lock file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test quick days check bench package clean lock env

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Pregão needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

env: $(STAMP)

demo: $(STAMP)
	$(BIN)/pregao demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# What a change breaks first, without Java: two minutes.
quick: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not spark and not slow"

# A thousand small days over bad lines: every trusted book is compared with the exchange's, and the
# pump with the plain machine.
days: $(STAMP)
	PREGAO_CHANNEL_DAYS=1000 $(BIN)/python -m pytest -n 2 tests/feed/test_feed_channel_days.py \
		tests/feed/test_feed_pump.py

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Builds the wheel and the source distribution, and tries them in fresh environments.
package: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python packaging/try_package.py dist

bench: $(STAMP)
	$(BIN)/python -m bench

# Rewrites requirements.lock for every supported platform and Python; needs `uv` on the PATH.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --group dev --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
