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


def test_every_extra_that_an_error_names_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = "\n".join(path.read_text() for path in (ROOT / "nonneg").rglob("*.py"))
    named = set(
        re.findall(r"needs_extra\(\"(\w+)\"|import_extra\([^)]*extra=\"(\w+)\"|pip install 'nonneg\[(\w+)\]", code)
    )
    assert {name for names in named for name in names if name} <= set(extras)
    assert len(named) > 5
    within = {name for names in extras.values() for each in names for name in re.findall(r"^nonneg\[([\w,]+)\]", each)}
    assert {name for names in within for name in names.split(",")} <= set(extras)


def test_every_dependency_is_pinned_for_the_tests():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    # For encoders and tools of other libraries.
    optional = {"timm", "transformers", "adapters", "sentence", "tensorboard", "peers"}
    needed = [each for name, names in extras.items() if name not in optional for each in names]
    pinned = {
        line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    for requirement in (*project["dependencies"], *needed):
        name = re.match(r"[\w-]+", requirement)[0].lower().replace("_", "-")
        assert name in pinned | {"nonneg"}, requirement
