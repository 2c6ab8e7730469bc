# Everything runs in .venv, which is made from pinned versions. The main commands: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
RELEASE := build/release
INSTALL := pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test check docs test-slow package test-release test-gpu bench reliability clean

demo: .venv/demo
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
	$(BIN)/python -m $(INSTALL) -e '.[docs]'
	$(BIN)/python -m docs.generator

test-slow: .venv/ready
	$(BIN)/pytest -q -m slow

# The sdist, and the wheel that is built from it; then the core alone, in an environment with torch.
package: .venv/ready
	rm -rf $(RELEASE)
	$(BIN)/python -m build --outdir $(RELEASE) .
	$(BIN)/python -m twine check --strict $(RELEASE)/nonneg-*
	$(BIN)/python -m benchmarks.installation $(RELEASE)/*.whl --extras "" --most-packages 25 --most-mb 480

# Before a release: the documentation, the slow tests and the package, then the demo from the wheel in a fresh
# environment.
test-release: docs test-slow package
	$(PYTHON) -m venv $(RELEASE)/venv
	$(RELEASE)/venv/bin/python -m $(INSTALL) torch
	$(RELEASE)/venv/bin/python -m $(INSTALL) "$$(echo $(RELEASE)/*.whl)[train]"
	cd $(RELEASE) && venv/bin/nonneg demo --epochs 2 && test -s runs/demo/report.html

# Compiling takes most of the time, on the CPU: several workers. Only files with such tests are collected: others import
# packages that a machine with a GPU may lack.
test-gpu: .venv/ready
	OMP_NUM_THREADS=2 $(BIN)/pytest -q -n auto --maxprocesses 8 --dist worksteal -m "gpu and not slow" \
		$$(grep -rl --include='test_*.py' 'mark\.gpu' tests)

# Kills, damaged files and bad input, counted; writes the page.
reliability: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reliability --page docs/results/reliability.md

bench: .venv/ready
	$(BIN)/python -m benchmarks.losses
	$(BIN)/python -m benchmarks.digits

# The demo and the tests share .venv; the demo installs no development tools. torch comes first, so that packages that
# depend on it use the installed build.
.venv/demo: EXTRAS := train
.venv/ready: EXTRAS := dev
.venv/demo .venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nonneg needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m $(INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(BIN)/python -m $(INSTALL) -e '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf .venv build dist
