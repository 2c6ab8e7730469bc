"""The steps of a reproduction, and the files that keep their figures."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nonneg.durable import read_object, write_atomically
from nonneg.errors import InputError

_COMMITS = "commits.json"
_ADVICE = "; remove it to repeat the step"
_REQUIRED = {  # the figures that the page needs, by part
    "run": {"figures"},
    "matching": {"agreement", "floor", "live", "at_least"},
    "selection": {"points"},
    "supervised": {"accuracy", "curve"},
}


class Step(NamedTuple):
    """A step of a reproduction: a part, and which variant of it. Fields that do not apply to a part are empty.

    Runs and selections have a `side` (CL or NCL), supervised runs a `start` (scratch or fine-tuned) and a `head`.
    """

    part: Literal["run", "pictures", "selection", "supervised", "matching", "activation"]
    side: str = ""
    start: str = ""
    head: str = ""
    activation: str = ""
    seed: int | None = None

    def __str__(self) -> str:
        words = ("" if self.part == "run" else self.part, self.side, self.start, self.head, self.activation)
        return ", ".join(filter(None, (*words, "" if self.seed is None else f"seed {self.seed}")))


class StepStore:
    """A folder with one JSON file per finished step, and the commits of the code that produced them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, step: Step) -> Path:
        """Return the file of a step."""
        return self.folder / f"{str(step).replace(', ', '-').replace(' ', '-').lower()}.json"

    def read(self, step: Step) -> Any:
        """Return the figures of a finished step, or None."""
        if not self.path(step).is_file():
            return None
        figures = read_object(self.path(step), _ADVICE)
        entries = list(figures.values()) if step.part == "matching" else [figures]
        required = _REQUIRED.get(step.part, set())
        is_valid = all(isinstance(entry, dict) and required <= entry.keys() for entry in entries)
        if step.part == "pictures":
            is_valid = all(isinstance(file, str) for file in figures.values())
        if not is_valid:
            raise InputError(f"{self.path(step)} is damaged{_ADVICE}")
        return figures

    def write(self, step: Step, figures: Any) -> None:
        """Store the figures of a step."""
        self._write(self.path(step), figures)

    def commits(self) -> list[str]:
        """Return the commits of the code that produced runs and figures; it may have changed on the way."""
        path = self.folder / _COMMITS
        if not path.is_file():
            return []
        return list(read_object(path, _ADVICE, lambda text: {"commits": list(json.loads(text))})["commits"])

    def add_commits(self, environments: Iterable[dict[str, Any]]) -> None:
        """Add the commits of these environments."""
        known = self.commits()
        if new := [made["commit"] for made in environments if made["commit"] not in known]:
            self._write(self.folder / _COMMITS, [*known, *dict.fromkeys(new)])

    def _write(self, path: Path, content: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, indent=1).encode())
