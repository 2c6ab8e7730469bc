"""Images named by a column of a table, with paths relative to a folder."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nonneg.modalities._splits import unique_ids
from nonneg.modalities.images.sources._collection import ListedFile, Listing, short_name


class Column:
    """The image files that a column names, each once; missing ones count as broken.

    Args:
        paths: their paths, all different.
        folder: what relative paths are relative to.
        where: the table and its column.
    """

    def __init__(self, paths: Sequence[str], folder: Path, where: str) -> None:
        self._paths, self._folder = paths, os.path.realpath(folder)
        self._files: list[ListedFile] = []
        self.title = short_name(Path(where))
        self.place = f"column {self._folder} {where}"

    def fingerprint(self) -> str:
        self._files = [_listed(os.path.join(self._folder, path)) for path in self._paths]  # noqa: PTH118
        digest = hashlib.sha256()
        for file in self._files:
            digest.update("\0".join(map(str, file)).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def listing(self) -> Listing:
        return Listing(self.title, unique_ids(self._paths), None, ())

    def read(self, start: int) -> Iterator[ListedFile]:
        if not self._files:
            self.fingerprint()
        return iter(self._files[start:])


def _listed(path: str) -> ListedFile:
    try:
        found = os.stat(path)  # noqa: PTH116 (a million times)
    except (OSError, ValueError):
        return ListedFile(path, -1, -1, False)
    return ListedFile(path, found.st_size, found.st_mtime_ns, os.access(path, os.R_OK))
