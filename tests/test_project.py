"""What holds the project together: one version everywhere, benchmarks that start."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import nonneg

ROOT = Path(nonneg.__file__).parents[1]
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_can_be_started(name):
    importlib.import_module(f"benchmarks.{name}")


def test_one_version_is_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "nonneg/__init__.py"
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == nonneg.__version__
    assert f"## {nonneg.__version__}" in (ROOT / "CHANGELOG.md").read_text()
