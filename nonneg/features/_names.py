"""Names that people give to features: an append-only journal beside the codes."""

import json
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from nonneg.durable import flush, os_errors_as_input_errors, read_errors_as_input_errors, sync_folder
from nonneg.errors import InputError
from nonneg.locks import lock

FILE = "names.jsonl"
_UNSEEN = ("Cc", "Cs", "Zl", "Zp")  # kinds of characters: control, half a character, ends of lines and paragraphs


@dataclass(frozen=True)
class Naming:
    """One line of the journal: who called which feature what, and when. An empty name takes it back."""

    codes: str
    feature: int
    name: str
    author: str
    time: str


class NameJournal:
    """The names in a `Features` folder, for the codes that are in it now.

    Lines written for other codes (the folder was overwritten since) stay in the file and do not
    apply. Appends are locked and flushed; a line torn by a crash is dropped.
    """

    def __init__(self, folder: Path, codes: str) -> None:
        self.path = folder / FILE
        self.codes = codes

    def history(self) -> list[Naming]:
        """Every naming of these codes, oldest first; a damaged line is left out with a warning."""
        namings, damaged = self.read()
        if damaged:
            warnings.warn(f"{self.path}: line {damaged[0]} is damaged and left out", UserWarning, stacklevel=2)
        return namings

    def read(self) -> tuple[list[Naming], list[int]]:
        """The namings of these codes, and the numbers of lines that are not namings."""
        if not self.path.is_file():
            return [], []
        with read_errors_as_input_errors(self.path):
            lines = self.path.read_bytes().split(b"\n")[:-1]  # what follows the last newline is torn
        namings, damaged = [], []
        for number, line in enumerate(lines, 1):
            naming = _parsed(line)
            if naming is None:
                damaged.append(number)
            elif naming.codes == self.codes:
                namings.append(naming)
        return namings, damaged

    def current(self) -> dict[int, str]:
        """Feature to name, the latest naming of each."""
        names = {naming.feature: naming.name for naming in self.history()}
        return {feature: name for feature, name in sorted(names.items()) if name}

    def record(self, names: Mapping[int, str], author: str = "", replaces: Mapping[int, str] | None = None) -> bool:
        """Append these namings, all at once; an empty name takes one back.

        Args:
            names: feature to name.
            author: who calls them so.
            replaces: what those features must be called now; if one is called otherwise, nothing is written.

        Returns:
            Whether they were written.
        """
        if not names:
            return True
        if escaped(author) != author:
            raise InputError(f"author is {author!r}, expected a name in one line, without control characters")
        time = datetime.now(UTC).isoformat(timespec="seconds")
        namings = [Naming(self.codes, feature, name, author, time) for feature, name in checked_names(names).items()]
        text = "".join(json.dumps(asdict(naming)) + "\n" for naming in namings)
        with os_errors_as_input_errors(self.path), self.path.open("a+b") as file:
            lock(file)
            now = self.current() if replaces else {}
            if any(now.get(feature, "") != name for feature, name in (replaces or {}).items()):
                return False
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)  # a torn line of an earlier crash
            file.write(text.encode())
            flush(file)
            sync_folder(self.path.parent)
        return True


def checked_names(names: Mapping[int, str]) -> dict[int, str]:
    """Whole-numbered features and strings that can be shown in a line.

    Example:
        >>> checked_names({1: "wheels, doors"})
        {1: 'wheels, doors'}
        >>> checked_names({1: "two\\nlines"})
        Traceback (most recent call last):
        nonneg.errors.InputError: names: 1 is called 'two\\nlines', expected one line without control characters
    """
    for feature, name in names.items():
        # NumPy's integers will do; True, 1.5 and "1" will not.
        if np.asarray(feature).dtype.kind not in "iu" or not isinstance(name, str):
            raise InputError(f"names: {feature!r} is called {name!r}, expected a feature's number and a string")
        if escaped(name) != name:
            raise InputError(f"names: {feature} is called {name!r}, expected one line without control characters")
    return {int(feature): name for feature, name in names.items()}


def escaped(text: str) -> str:
    """In one line: characters that break lines or steer a terminal as Python writes them.

    Example:
        >>> print(escaped("two\\nlines, 🦊"))
        two\\nlines, 🦊
    """
    if text.isprintable():  # nearly always
        return text
    kinds = ((character, unicodedata.category(character)) for character in text)
    return "".join(c.encode("unicode_escape").decode() if kind in _UNSEEN else c for c, kind in kinds)


def _parsed(line: bytes) -> Naming | None:
    try:
        naming = Naming(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    fits = type(naming.feature) is int and all(isinstance(v, str) for k, v in asdict(naming).items() if k != "feature")
    # What was written before such names were refused is shown all the same.
    return replace(naming, name=escaped(naming.name), author=escaped(naming.author)) if fits else None
