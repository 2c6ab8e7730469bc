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
    looks_like_image,
    refuse_splits_among_classes,
    short_name,
)


class Folder:
    """Image files below a folder; the class is the first folder on the way to the file."""

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
        self._files = list(_walk(root / self._part))  # with their paths below that folder
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
    """The split folders, if that is what the folders are; one without images (annotations, …) decides nothing."""
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
    refuse_splits_among_classes(filled, divided, str(root))
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
    """Image files with links followed: of each folder its files first, then its folders, each in order of name."""
    waiting = [(os.fspath(root), "", frozenset[tuple[int, int]]())]
    while waiting:
        folder, prefix, above = waiting.pop()
        with read_errors_as_input_errors(Path(folder)):
            own = os.stat(folder)  # noqa: PTH116 (a million times)
            if (own.st_dev, own.st_ino) in above:  # a link back up: what is there has been seen
                continue
            with os.scandir(folder) as listed:
                entries = sorted((e for e in listed if not e.name.startswith(".")), key=lambda entry: entry.name)
        above |= {(own.st_dev, own.st_ino)}
        folders = []
        for entry in entries:
            if _is_folder(entry):
                folders.append((entry.path, f"{prefix}{entry.name}/", above))
            elif looks_like_image(entry.name):
                yield _described(entry, prefix)
        waiting += reversed(folders)


def _described(entry: os.DirEntry[str], prefix: str) -> ListedFile:
    path = prefix + entry.name
    try:
        found = entry.stat()
    except OSError:  # a link that leads nowhere: reading it will say so
        return ListedFile(path, -1, -1, False)
    # A file may become readable without any other change.
    return ListedFile(path, found.st_size, found.st_mtime_ns, os.access(entry.path, os.R_OK))


def holds_image(folder: Path) -> bool:
    """Whether an image file lies anywhere below, hidden folders aside; looks no further than the first."""
    with read_errors_as_input_errors(folder), os.scandir(folder) as listed:
        entries = (entry for entry in listed if not entry.name.startswith("."))
        return any(looks_like_image(e.name) or (_is_folder(e) and any(_walk(Path(e.path)))) for e in entries)
