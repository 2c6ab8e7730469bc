"""What an installation takes: packages and megabytes beside torch, in a fresh environment for each extra.

    python -m benchmarks.installation dist/nonneg-0.1.0-py3-none-any.whl --extras "" page train search all

Sizes are the disk blocks of site-packages, bytecode included, as `du` counts them. The core is also tried: with
`tests/core_only.py`, in its environment.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def megabytes(environment: Path) -> float:
    files = (path.lstat() for path in environment.rglob("*"))
    return sum(found.st_blocks * 512 for found in files) / 2**20


def packages(python: Path) -> set[str]:
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    )
    return {line.split("==")[0] for line in listed.stdout.split()}


def install(python: Path, *what: str) -> float:
    """Install packages in the versions of constraints.txt; return the seconds."""
    start = time.monotonic()
    options = ["--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([python, "-m", "pip", "install", *options, *what], check=True)
    return time.monotonic() - start


def measure(wheel: Path, extra: str, folder: Path) -> tuple[int, float, float]:
    """Install an extra beside torch in a new environment; return packages, megabytes and seconds."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    install(python, "torch")
    before, size = packages(python), megabytes(folder)
    seconds = install(python, f"{wheel.resolve()}[{extra}]" if extra else str(wheel.resolve()))
    found = len(packages(python) - before), megabytes(folder) - size, seconds
    if not extra:
        with tempfile.TemporaryDirectory() as empty:
            outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            command = [python, ROOT / "tests/core_only.py", empty]
            tried = subprocess.run(command, cwd=empty, env=outside, capture_output=True, text=True)
        if tried.returncode:
            sys.exit(f"the core does not work alone: {tried.stderr[-2000:]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--extras", nargs="*", default=["", "page", "train", "search", "all"])
    parser.add_argument("--most-packages", type=int, help="fail if the core adds more packages to torch")
    parser.add_argument("--most-mb", type=float, help="fail if the core adds more megabytes, rounded, to torch")
    given = parser.parse_args()
    lines = ["| beside torch | packages | MB | seconds |", "|---|---:|---:|---:|"]
    failed = False
    for extra in given.extras:
        with tempfile.TemporaryDirectory() as folder:
            count, size, seconds = measure(given.wheel, extra, Path(folder) / "venv")
        lines.append(f"| {f'nonneg[{extra}]' if extra else 'nonneg'} | {count} | {size:.0f} | {seconds:.0f} |")
        if not extra:
            failed = count > (given.most_packages or count) or round(size) > (given.most_mb or size)
    print("\n".join(lines))
    sys.exit("the core is larger than it may be" if failed else 0)


if __name__ == "__main__":
    main()
