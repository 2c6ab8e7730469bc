"""Prepare build/docs, build the site strictly, check links and public names. Exit code 1 if anything is wrong."""

import os
import subprocess
import sys
from pathlib import Path

from docs.generator._links import broken_links
from docs.generator._names import missing_names
from docs.generator._stage import stage

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Build the site from the root of the repository."""
    os.chdir(ROOT)
    stage(ROOT, Path("build/docs"))
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    built = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"})
    if built.returncode:
        sys.exit(built.returncode)
    site = Path("build/site")
    unlisted = missing_names(site, Path("docs/reference"))
    found = broken_links(site) + [f"{name} is public and has no entry in docs/reference" for name in unlisted]
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} problems in {site}")
    print(f"Built: {site / 'index.html'}; no broken links, no public name without reference")


if __name__ == "__main__":
    main()
