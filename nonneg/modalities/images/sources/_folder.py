"""A folder of image files: in class folders, or flat; divided into split folders, or not."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import valid_text
from nonneg.modalities._splits import SPLITS, choose_split, classes, has_splits, require_train, unique_ids
from nonneg.modalities.images.sources._collection import (
    ListedFile,
    Listing,
    check_no_split_among_classes,
    looks_like_image,
    short_name,
)


class Folder:
    """Image files below a folder; the class is the first folder of a file's path."""

    def __init__(self, root: Path, split: str) -> None:
        self._root = root
        self.place = f"folder {os.path.realpath(root)} {split}"
        parts = _splits(root)
        if parts:
            self._part = choose_split(split, parts, str(root))
        else:
            require_train(split, str(root))
            self._part = ""
        self.title = f"{short_name(root)}/{self._part or split}"
        self._files = list(_walk(root / self._part))  # with paths relative to that folder
        if not self._files:
            raise InputError(f"{root / self._part} holds no image, expected image files")
        self._elsewhere = {
            name for part in parts - {self._part} for name in _folders(root / part) if holds_image(root / part / name)
        }

    def fingerprint(self) -> str:
        digest = hashlib.sha256("/".join([self._part, *sorted(self._elsewhere)]).encode("utf-8", "surrogateescape"))
        for file in self._files:
            digest.update("\0".join(map(str, file)).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def listing(self) -> Listing:
        paths = [PurePosixPath(file.path) for file in self._files]
        labels, names = classes(paths, self._elsewhere, valid_text(str(self._root / self._part)))
        ids = unique_ids(str(PurePosixPath(self._part, path)) for path in paths)
        return Listing(self.title, ids, labels, names)

    def read(self, start: int) -> Iterator[ListedFile]:
        folder = os.fspath(self._root / self._part)
        return (file._replace(path=f"{folder}/{file.path}") for file in self._files[start:])


def _splits(root: Path) -> set[str]:
    """Return the split folders, if the folders are splits; folders without images (annotations, …) do not count."""
    folders = _folders(root)
    splits = set(folders) & set(SPLITS)
    if not splits:
        return set()
    filled = [name for name in folders if holds_image(root / name)]
    if has_splits(filled):
        return splits
    divided = (
        name
        for name in splits & set(filled)
        if any(holds_image(root / name / folder) for folder in _folders(root / name))
    )
    check_no_split_among_classes(filled, divided, str(root))
    return set()


def _folders(folder: Path) -> list[str]:
    with read_errors_as_input_errors(folder), os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _walk(root: Path) -> Iterator[ListedFile]:
    """Yield image files, following links: each folder's files first, then its folders, both in order of name."""
    pending = [(os.fspath(root), "", frozenset[tuple[int, int]]())]
    while pending:
        folder, prefix, above = pending.pop()
        with read_errors_as_input_errors(Path(folder)):
            own = os.stat(folder)  # noqa: PTH116 (a million times)
            if (own.st_dev, own.st_ino) in above:  # a link to a parent, which is listed already
                continue
            with os.scandir(folder) as listed:
                entries = sorted((e for e in listed if not e.name.startswith(".")), key=lambda entry: entry.name)
        above |= {(own.st_dev, own.st_ino)}
        folders = []
        for entry in entries:
            if _is_folder(entry):
                folders.append((entry.path, f"{prefix}{entry.name}/", above))
            elif looks_like_image(entry.name):
                yield _listed_file(entry, prefix)
        pending += reversed(folders)


def _listed_file(entry: os.DirEntry[str], prefix: str) -> ListedFile:
    path = prefix + entry.name
    try:
        found = entry.stat()
    except OSError:  # a broken link, which is reported when it is read
        return ListedFile(path, -1, -1, False)
    # A file can become readable without any other change.
    return ListedFile(path, found.st_size, found.st_mtime_ns, os.access(entry.path, os.R_OK))


def holds_image(folder: Path) -> bool:
    """Whether there is an image file below the folder, outside hidden folders; stops at the first one."""
    with read_errors_as_input_errors(folder), os.scandir(folder) as listed:
        entries = (entry for entry in listed if not entry.name.startswith("."))
        return any(looks_like_image(e.name) or (_is_folder(e) and any(_walk(Path(e.path)))) for e in entries)
