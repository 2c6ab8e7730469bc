"""`meta.json`: the list of what a folder holds, with a hash over itself. Replacing it commits a save."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from nonneg.durable import (
    digest_of,
    folder_entries,
    is_leftover,
    os_errors_as_input_errors,
    read_bounded,
    read_errors_as_input_errors,
    read_object,
    remove,
    sync_folder,
    write_atomically,
)
from nonneg.errors import InputError
from nonneg.payload import Entry, is_entry
from nonneg.validation import check_fields

META = "meta.json"
_FEW = 2**22  # rows or columns that need no proof: a few arrays of this length fit into any memory
Result = TypeVar("Result")


@dataclass(frozen=True)
class Manifest(ABC):
    """The content of a `meta.json`. A subclass adds fields, which are checked against their annotations.

    Attributes:
        format: the name of the format, as the file states it.
        version: the version of the format.
        content: what error messages call the content of the folder.
        file_names: matches the names of files and folders that a manifest may list; none leads out of the folder.
        unlisted: names of further files that belong to the content.
    """

    format: ClassVar[str]
    version: ClassVar[int]
    content: ClassVar[str]
    file_names: ClassVar[re.Pattern[str]]
    unlisted: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def entries(self) -> list[Entry]:
        """Return the entries of all files."""

    def listed(self) -> set[str]:
        """Return the names of all files and folders that are listed."""
        return {entry["file"] for entry in self.entries()}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check a folder's `meta.json`.

        Raises:
            InputError: if it is damaged, of another format or of another version.
        """
        path, content = folder / META, cls._read_json(folder)
        if content.get("version") != cls.version:
            raise InputError(
                f"{path} is of version {content.get('version')!r}, this nonneg reads version {cls.version}"
            )
        if content.pop("sha256", None) != digest_of(content):
            raise InputError(f"{path} is damaged: it is not what was saved (SHA-256 differs)")
        try:
            manifest = cls(**{name: value for name, value in content.items() if name not in ("format", "version")})
            is_valid = all(is_entry(entry, cls.file_names) for entry in manifest.entries())
        except (KeyError, TypeError, ValueError, AttributeError):
            is_valid = False
        if not is_valid:
            raise InputError(f"{path} is damaged: its fields are not those of {cls.format} version {cls.version}")
        return manifest

    @classmethod
    def read_consistently(cls, folder: Path, read: Callable[[Self], Result]) -> Result:
        """Call `read` again if another process replaces the content between reading `meta.json` and its files."""
        while True:
            manifest = cls.read(folder)
            try:
                return read(manifest)
            except InputError:
                if cls.read(folder) == manifest:
                    raise

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        """Whether a folder has a `meta.json` of this format, which may still be damaged."""
        try:
            cls._read_json(folder)
        except InputError:
            return False
        return True

    @classmethod
    def check_writable(cls, folder: Path, overwrite: bool) -> None:
        """Raise InputError if saving into the folder would replace earlier content or mix with other files.

        What an interrupted first save has left does not matter.
        """
        names = {path.name for path in folder_entries(folder) if not path.name.startswith(".")}
        # Other files are allowed only next to the same kind of content, not in a folder with a damaged meta.json.
        if not cls.is_in(folder):
            others = {name for name in names - {META} - cls.unlisted if not cls.file_names.fullmatch(name)}
            if others or _is_json(folder / META):
                found = min(others, default=META)
                raise InputError(f"{folder} holds other files ({found}), expected an empty folder or a new name")
        if META in names and not overwrite:
            advice = "pass overwrite=True (on the command line: --overwrite) to replace it, or choose a new name"
            raise InputError(f"{folder} holds {cls.content} already; {advice}")

    def commit(self, folder: Path) -> None:
        """Flush the files that were written to the folder, then replace its `meta.json`."""
        with os_errors_as_input_errors(folder):
            sync_folder(folder)
        content = {"format": self.format, "version": self.version, **asdict(self)}
        write_atomically(folder / META, with_checksum(content))

    @classmethod
    def remove_leftovers(cls, folder: Path) -> None:
        """Remove files that `meta.json` does not list: left by an interrupted save or by the replaced content."""
        with suppress(OSError):
            unlisted = {path for path in folder.iterdir() if cls.file_names.fullmatch(path.name)}
            try:
                unlisted -= {folder / name for name in cls.read(folder).listed()}
            except InputError:
                if (folder / META).exists():  # damaged: any of these files may be one that it listed
                    unlisted = set()
            for path in unlisted.union(filter(is_leftover, folder.iterdir())):
                with suppress(OSError):  # Windows keeps files that are memory-mapped: the next save removes them
                    remove(path)

    @classmethod
    def _read_json(cls, folder: Path) -> dict[str, Any]:
        path = folder / META
        with read_errors_as_input_errors(folder):
            if not path.is_file():
                found = "it is a file" if folder.exists() else "there is no such folder"
                reason = f"it has no {META}" if folder.is_dir() else found
                raise InputError(f"{folder} does not hold {cls.content}: {reason}")
        content = read_object(path)
        if content.get("format") != cls.format:
            raise InputError(f"{path} is of another format, expected {cls.format}")
        return content


def check_claim(name: str, claimed: int, entries: Iterable[Entry]) -> None:
    """Raise InputError for a number of rows or columns that would take far more memory than the files have bytes."""
    most = max(_FEW, sum({entry["file"]: entry["bytes"] for entry in entries}.values()))
    if claimed > most:
        raise InputError(f"{name} are {claimed:,}, expected at most {most:,}, the size of the files in bytes")


def with_checksum(content: dict[str, Any]) -> bytes:
    """Return JSON with a hash over its own content, which `Manifest.read` checks."""
    return json.dumps({**content, "sha256": digest_of(content)}, indent=1).encode()


def _is_json(path: Path) -> bool:
    """Whether a `meta.json` that is not ours is valid: then another program wrote it."""
    try:
        json.loads(read_bounded(path))
    except (ValueError, RecursionError):
        return False
    return True
