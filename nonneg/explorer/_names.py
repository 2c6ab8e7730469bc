"""Feature names on an open page, reloaded whenever their journal has changed since the last request."""

import threading
from contextlib import suppress
from pathlib import Path

from nonneg.errors import InputError
from nonneg.explorer._answers import NamingEntry
from nonneg.features import Features, journal


class Names:
    """The names of a set's features.

    Args:
        features: the features that are named.
        folder: the features folder with the journal of names, or None for features in memory.
    """

    def __init__(self, features: Features, folder: Path | None) -> None:
        self._journal = None if folder is None else journal(folder)
        self._lock = threading.Lock()
        self._version: tuple[int, int] = (-1, -1)
        self._history: dict[int, list[NamingEntry]] = {}
        self._current = dict(features.names)
        self.reload()

    @property
    def can_change(self) -> bool:
        """Whether there is a folder to save names in."""
        return self._journal is not None

    def current(self) -> dict[int, str]:
        """The names of all named features."""
        return self._current

    def history(self, feature: int) -> tuple[NamingEntry, ...]:
        """All names a feature has had, latest first."""
        return tuple(reversed(self._history.get(feature, [])))

    def rename(self, feature: int, name: str, author: str, replaces: str | None) -> bool:
        """Name a feature; return False if its current name is not the one in `replaces`."""
        if self._journal is None:
            raise InputError("the features are not in a folder, expected saved features to name")
        if not name and not self.current().get(feature):
            return True  # there is no name to remove
        expected = None if replaces is None else {feature: replaces}
        is_recorded = self._journal.record({feature: name}, author, expected)
        self.reload()
        return is_recorded

    def reload(self) -> None:
        """Read the journal if it has changed. Called once per request: a page shows thousands of names."""
        if self._journal is None:
            return
        with self._lock:  # one request reads it, the others wait
            version = (0, 0)
            with suppress(OSError):  # there is no journal before the first name
                found = self._journal.path.stat()
                version = (found.st_mtime_ns, found.st_size)
            if version == self._version:
                return
            history: dict[int, list[NamingEntry]] = {}
            for naming in self._journal.history():
                entry = NamingEntry(name=naming.name, author=naming.author, time=naming.time)
                history.setdefault(naming.feature, []).append(entry)
            self._current = {feature: entries[-1].name for feature, entries in history.items() if entries[-1].name}
            self._history, self._version = history, version
