"""Names that people give to features, in an append-only journal next to the codes."""

import json
import unicodedata
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from nonneg.durable import flush, os_errors_as_input_errors, read_errors_as_input_errors, sealed, sync_folder, unsealed
from nonneg.errors import InputError
from nonneg.locks import lock
from nonneg.messages import escaped

FILE = "names.jsonl"
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol that look like spaces


@dataclass(frozen=True)
class Naming:
    """One line of the journal: who gave which name to which feature, and when. An empty name removes the name."""

    codes: str
    feature: int
    name: str
    author: str
    time: str


class NameJournal:
    """The names in a `Features` folder that were given to the codes in it.

    Lines about codes that were overwritten stay in the file but do not apply. Appending locks and flushes the file;
    a line that a crash left incomplete is dropped.
    """

    def __init__(self, folder: Path, codes: str) -> None:
        self.path = folder / FILE
        self.codes = codes

    def history(self) -> list[Naming]:
        """Return all namings of these codes, oldest first, with a warning if a line is damaged."""
        namings, damaged = self.read()
        if damaged:
            warnings.warn(f"{self.path}: line {damaged[0]} is damaged and skipped", UserWarning, stacklevel=2)
        return namings

    def read(self) -> tuple[list[Naming], list[int]]:
        """Return the namings of these codes and the numbers of damaged lines."""
        if not self.path.is_file():
            return [], []
        with read_errors_as_input_errors(self.path):
            lines = self.path.read_bytes().split(b"\n")[:-1]  # whatever follows the last newline is incomplete
        namings, damaged = [], []
        for number, line in enumerate(lines, 1):
            naming = _parse(line)
            if naming is None:
                damaged.append(number)
            elif naming.codes == self.codes:
                namings.append(naming)
        return namings, damaged

    def current(self) -> dict[int, str]:
        """Return the current names, by feature."""
        names = {naming.feature: naming.name for naming in self.history()}
        return {feature: name for feature, name in sorted(names.items()) if name}

    def record(self, names: Mapping[int, str], author: str = "", replaces: Mapping[int, str] | None = None) -> bool:
        """Append these names, all or none; an empty name removes one.

        Args:
            names: feature to name.
            author: who gave the names.
            replaces: the current names that the caller expects, by feature; if one differs, nothing is written.

        Returns:
            Whether the names were written.
        """
        if not names:
            return True
        if escaped(author) != author:
            raise InputError(f"author is {author!r}, expected one line without control characters")
        time = datetime.now(UTC).isoformat(timespec="seconds")
        namings = [Naming(self.codes, feature, name, author, time) for feature, name in checked_names(names).items()]
        text = "".join(json.dumps(sealed(asdict(naming))) + "\n" for naming in namings)
        with os_errors_as_input_errors(self.path), self.path.open("a+b", buffering=0) as file:
            with suppress(OSError):  # where nothing can be locked, writing is allowed
                lock(file)
            now = self.current() if replaces else {}
            if any(now.get(feature, "") != name for feature, name in (replaces or {}).items()):
                return False
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)  # remove an incomplete line
            try:
                remaining = memoryview(text.encode())
                while remaining:
                    remaining = remaining[file.write(remaining) :]
                flush(file)
            except OSError:  # such as a full disk: some of the lines may have been written
                file.truncate(whole)
                raise
            sync_folder(self.path.parent)
        return True


def checked_names(names: Mapping[int, str]) -> dict[int, str]:
    """Return the names, which must be single-line strings by feature number.

    Example:
        >>> checked_names({1: "wheels, doors"})
        {1: 'wheels, doors'}
        >>> checked_names({1: "two\\nlines"})
        Traceback (most recent call last):
        nonneg.errors.InputError: names: feature 1 is named 'two\\nlines', expected one line without control characters
    """
    for feature, name in names.items():
        # NumPy's integers are features; True, 1.5 and "1" are not.
        if not isinstance(feature, int | np.integer) or isinstance(feature, bool) or not isinstance(name, str):
            raise InputError(f"names: {feature!r} is named {name!r}, expected a feature's number and a string")
        if escaped(name) != name:
            raise InputError(
                f"names: feature {feature} is named {name!r}, expected one line without control characters"
            )
        if name and not _is_visible(name):
            raise InputError(f"names: feature {feature} is named {name!a}, expected a visible character")
    return {int(feature): name for feature, name in names.items()}


def _is_visible(name: str) -> bool:
    """Whether a name has more than spaces, marks and invisible characters."""
    kinds = [unicodedata.category(letter) for letter in name if letter not in _BLANK]
    return any(kind not in ("Cc", "Cf", "Cs") and kind[0] not in "MZ" for kind in kinds)


def _parse(line: bytes) -> Naming | None:
    try:
        naming = Naming(**unsealed(json.loads(line)))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    fits = type(naming.feature) is int and all(isinstance(v, str) for k, v in asdict(naming).items() if k != "feature")
    if not fits:
        return None
    # Files written before such names were rejected may hold them.
    name, author, time = escaped(naming.name), escaped(naming.author), escaped(naming.time)
    return replace(naming, name=name if _is_visible(name) else "", author=author, time=time)
