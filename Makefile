# Everything runs in .venv, made from pinned versions. The two commands: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check test-slow test-gpu bench clean

demo: .venv/ready
	$(BIN)/nonneg demo --overwrite

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile -m "not slow and not gpu"

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test-slow: .venv/ready
	$(BIN)/pytest -q -m slow

test-gpu: .venv/ready
	$(BIN)/pytest -q -m gpu

bench: .venv/ready
	$(BIN)/python -m benchmarks.losses
	$(BIN)/python -m benchmarks.digits

# torch first: what depends on it then takes the build that is there.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nonneg needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,seismic,milvus]'
	touch $@

clean:
	rm -rf .venv build dist
