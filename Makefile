# Everything runs in .venv, which is made from pinned versions. The main commands: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
RELEASE := build/release

.PHONY: demo test check docs test-slow test-release test-gpu bench reliability clean

demo: .venv/ready
	$(BIN)/nonneg demo --overwrite

# Three workers on two cores: many tests wait for processes that they start. One worker per file: what the tests of a
# file share is made once.
test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 3 --dist loadfile -m "not slow and not gpu"

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The documentation as plain files, built strictly: build/site/index.html.
docs: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python -m docs.generator

test-slow: .venv/ready
	$(BIN)/pytest -q -m slow

# Before a release: the documentation, the slow tests, then the demo from a wheel in a fresh environment.
test-release: docs test-slow
	rm -rf $(RELEASE)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(RELEASE) .
	$(PYTHON) -m venv $(RELEASE)/venv
	$(RELEASE)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(RELEASE)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(RELEASE)/*.whl
	cd $(RELEASE) && venv/bin/nonneg demo --epochs 2 && test -s runs/demo/report.html

test-gpu: .venv/ready
	$(BIN)/pytest -q -m gpu

# Kills, damaged files and bad input, counted; writes the page.
reliability: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reliability --page docs/results/reliability.md

bench: .venv/ready
	$(BIN)/python -m benchmarks.losses
	$(BIN)/python -m benchmarks.digits

# torch comes first, so that packages that depend on it use the installed build.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nonneg needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,seismic,milvus,text,graphs]'
	touch $@

clean:
	rm -rf .venv build dist
