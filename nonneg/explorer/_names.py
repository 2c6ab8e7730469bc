"""Names of features while pages are open: read again whenever somebody has written, here or elsewhere."""

import threading
from pathlib import Path

from nonneg.errors import InputError
from nonneg.explorer._answers import NamingEntry
from nonneg.features import Features, journal


class Names:
    """What the features of a set are called.

    Args:
        features: whose names they are.
        folder: where the features lie, with the journal of their names; None if they are in memory alone.
    """

    def __init__(self, features: Features, folder: Path | None) -> None:
        self._journal = None if folder is None else journal(folder)
        self._lock = threading.Lock()
        self._seen: tuple[int, int] = (-1, -1)
        self._history: dict[int, list[NamingEntry]] = {}
        self._current = dict(features.names)

    @property
    def can_change(self) -> bool:
        """Whether names have a place to be kept in."""
        return self._journal is not None

    def current(self) -> dict[int, str]:
        """Feature to name, of those that have one."""
        self._read()
        return self._current

    def history(self, feature: int) -> tuple[NamingEntry, ...]:
        """Every naming of a feature, latest first."""
        self._read()
        return tuple(reversed(self._history.get(feature, [])))

    def call(self, feature: int, name: str, author: str, replaces: str | None) -> bool:
        """Name a feature, unless it is no longer called what the person saw; False then."""
        if self._journal is None:
            raise InputError("the features are not in a folder, expected saved ones to name")
        with self._lock:
            if not name and not self.current().get(feature):
                return True  # nothing is taken back
            return self._journal.record({feature: name}, author, None if replaces is None else {feature: replaces})

    def _read(self) -> None:
        """Read the journal again, but only where it has changed."""
        if self._journal is None:
            return
        path = self._journal.path
        now = (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else (0, 0)
        if now == self._seen:
            return
        found: dict[int, list[NamingEntry]] = {}
        for naming in self._journal.history():
            entry = NamingEntry(name=naming.name, author=naming.author, time=naming.time)
            found.setdefault(naming.feature, []).append(entry)
        self._current = {feature: entries[-1].name for feature, entries in found.items() if entries[-1].name}
        self._history, self._seen = found, now
