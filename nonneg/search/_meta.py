"""`meta.json`: the contents of an index's folder. Replacing it commits a change."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nonneg.durable import read_errors_as_input_errors, read_json, with_checksum, without_checksum
from nonneg.errors import InputError
from nonneg.payload import Entry, is_entry
from nonneg.search._files import DATABASE, PAYLOAD, is_own, sweep

META = "meta.json"
FORMAT, VERSION = "nonneg.index", 2


@dataclass(frozen=True)
class Meta:
    """The checked content of a `meta.json`.

    Attributes:
        engine: the engine's name.
        features: the number of features.
        cosine: whether codes are scaled to length 1.
        fingerprint: identifies the features that the index was built from.
        label_names: the names of labels 0, 1, ….
        parts: for each part, its `rows` and its `files` by name.
        deleted: the file that marks deleted rows; None if no row was deleted.
        settings: what the engine needs to open its data.
        files: the engine's files by name.
    """

    engine: str
    features: int
    cosine: bool
    fingerprint: str
    label_names: tuple[str, ...]
    parts: tuple[Mapping[str, Any], ...]
    deleted: Entry | None
    settings: Mapping[str, Any]
    files: Mapping[str, Entry]

    @classmethod
    def read(cls, folder: Path) -> "Meta":
        """Read a folder's `meta.json`; a damaged or foreign file or one of another version is an error."""
        path = folder / META
        content = without_checksum(path, read_json(folder, META, FORMAT, "an index"), VERSION)
        try:
            fields = {name: value for name, value in content.items() if name not in ("format", "version")}
            meta = cls(**fields | {name: tuple(fields[name]) for name in ("label_names", "parts")})
            fits = meta._fits()
        except (KeyError, TypeError, ValueError, AttributeError):
            fits = False
        if not fits:
            raise InputError(f"{path} is damaged: its fields are not those of {FORMAT} version {VERSION}")
        return meta

    def _fits(self) -> bool:
        """Check the types that other code relies on, and that no file name leads out of the folder."""
        sizes = [part["rows"] for part in self.parts]
        return (
            all(isinstance(text, str) for text in (self.engine, self.fingerprint, *self.label_names))
            and all(type(number) is int and 0 < number < 2**31 for number in (self.features, *sizes))
            and len(sizes) > 0
            and type(self.cosine) is bool
            and (self.deleted is None or (type(self.deleted["rows"]) is int and 0 < self.deleted["rows"] <= sum(sizes)))
            and all(is_entry(entry, PAYLOAD) for entry in self.entries())
            and isinstance(self.settings, dict)
            and ("database" not in self.settings or DATABASE.fullmatch(self.settings["database"]) is not None)
        )

    def entries(self) -> list[Entry]:
        """All files of the index."""
        of_parts = [entry for part in self.parts for entry in part["files"].values()]
        return [*of_parts, *self.files.values(), *([] if self.deleted is None else [self.deleted])]

    def named(self) -> set[str]:
        """The names of everything in the folder that belongs to the index."""
        database = {self.settings["database"]} if "database" in self.settings else set()
        return {entry["file"] for entry in self.entries()} | database

    def encoded(self) -> bytes:
        """The content of the file, with a checksum."""
        return with_checksum(json.loads(json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)})))


def _is_foreign(folder: Path) -> bool:
    """Whether the folder's `meta.json` belongs to something else; a damaged one of ours does not."""
    try:
        content = json.loads((folder / META).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return not isinstance(content, dict) or content.get("format") != FORMAT


def check_writable(folder: Path, overwrite: bool) -> None:
    """Raise an error if the folder holds other files, or an index that must not be overwritten.

    The remains of a build that was interrupted before its first commit are no obstacle.
    """
    with read_errors_as_input_errors(folder):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, expected a folder for the index or a new name")
        there = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    others = [name for name in there if name != META and not is_own(name)]
    if others or (META in there and _is_foreign(folder)):
        found = min(others or [META])
        raise InputError(f"{folder} holds other files ({found}), expected an empty folder or a new name")
    if META in there and not overwrite:
        raise InputError(f"{folder} holds an index already; pass --overwrite to replace it or choose a new name")


def remove_leftovers(folder: Path) -> None:
    """Remove the index's files that the folder's `meta.json` does not name."""
    try:
        named = Meta.read(folder).named()
    except InputError:
        if (folder / META).exists():  # damaged: the files it named are unknown and may be all that is left
            return
        named = set()
    sweep(folder, named)
