"""Exported pages to click through, made by the commands that the quickstart gives to people without files."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

_SECTION = "### No files yet?"
_BLOCK = re.compile(r"```(python|sh)\n(.*?)```", re.DOTALL)
_FEATURES = 256


def exported_questions(quickstart: Path, out: Path) -> None:
    """Run the quickstart's script and command, and write the page of their result as one HTML file."""
    section = quickstart.read_text(encoding="utf-8").split(_SECTION, 1)[1]
    (script, command), bin = (code for _, code in _BLOCK.findall(section)[:2]), Path(sys.executable).parent
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    with TemporaryDirectory() as folder:
        for line in (
            [sys.executable, "-c", script],
            ["sh", "-ec", command],
            ["nonneg", "export", "runs/questions", "site", "--max-features", str(_FEATURES)],
        ):
            subprocess.run(line, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(folder, "site", "index.html"), out)
