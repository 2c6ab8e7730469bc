"""The documentation site: notebooks run, links are checked, and everything public has an entry."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generator._links import broken_links

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def test_there_are_three_tutorials_without_stored_output():
    assert len(NOTEBOOKS) == 3
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells), f"{notebook.name} holds output"


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_its_first_cell_to_its_last(notebook, tmp_path):
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    program = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    command = [sys.executable, "-c", f"import matplotlib; matplotlib.use('agg')\n{program}"]
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_site_is_built_strictly_and_is_complete():
    pytest.importorskip("zensical", reason="needs the extra docs")
    done = subprocess.run([sys.executable, "-m", "docs.generator"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_help_of_every_command_is_in_the_reference():
    from docs.generator._commands import command_reference

    reference = command_reference()
    for command in ("demo", "train", "train images", "embed", "convert", "search", "explore", "verify"):
        assert f"\n## nonneg {command}\n" in reference
    assert "--max-active" in reference and "\x1b" not in reference


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('<a href="other.html#there">', None),
        ('<a href="https://example.org/">', None),
        ('<a href="none.html">', "none.html does not exist"),
        ('<a href="other.html#gone">', "#gone has no such anchor"),
        ('<img src="none.png">', "none.png does not exist"),
        ('<script src="https://example.org/x.js">', "from another server"),
    ],
)
def test_broken_links_are_found(link, expected, tmp_path):
    (tmp_path / "other.html").write_text('<h1 id="there">Other</h1>')
    (tmp_path / "page.html").write_text(link)
    found = broken_links(tmp_path)
    assert found == [] if expected is None else len(found) == 1 and expected in found[0]


def test_guides_do_not_mention_commits():
    import re

    for guide in (ROOT / "docs").glob("*.md"):
        assert not re.search(r"\bcommits? [0-9a-f]{7}\b", guide.read_text("utf-8")), guide.name
