"""The project as a whole: one version everywhere, benchmarks that can be imported."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import nonneg

ROOT = Path(nonneg.__file__).parents[1]
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_can_be_imported(name):
    importlib.import_module(f"benchmarks.{name}")


def test_all_files_state_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "nonneg/__init__.py"
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == nonneg.__version__
    assert f"## {nonneg.__version__}" in (ROOT / "CHANGELOG.md").read_text()
