"""`meta.json`: what an index's folder holds. Replacing it is the commit of every change."""

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
FORMAT, VERSION = "nonneg.index", 1


@dataclass(frozen=True)
class Meta:
    """The checked content of a `meta.json`.

    Attributes:
        engine: which one.
        features: how many.
        cosine: whether rows were brought to length 1 on their way in.
        fingerprint: of the features that the index was built from.
        label_names: what label 0, 1, … is called.
        parts: of each part its `rows`, and its `files` by name.
        deleted: the file that says which rows are gone; None while all are there.
        settings: what the engine has to remember.
        files: those of the engine, by name.
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
        """Refuses what is damaged, foreign or of another version."""
        path = folder / META
        content = without_checksum(path, _read_json(folder), VERSION)
        try:
            fields = {name: value for name, value in content.items() if name not in ("format", "version")}
            names, parts = tuple(fields.pop("label_names")), tuple(fields.pop("parts"))
            meta = cls(**fields, label_names=names, parts=parts)
            fits = meta._fits()
        except (KeyError, TypeError, ValueError, AttributeError):
            fits = False
        if not fits:
            raise InputError(f"{path} is damaged: its fields are not those of {FORMAT} version {VERSION}")
        return meta

    def _fits(self) -> bool:
        """Types that the rest may rely on; file names that cannot leave the folder."""
        return (
            all(isinstance(text, str) for text in (self.engine, self.fingerprint, *self.label_names))
            and all(type(number) is int and 0 < number < 2**31 for number in (self.features, *self.sizes))
            and len(self.sizes) > 0
            and type(self.cosine) is bool
            and (self.deleted is None or (type(self.deleted["rows"]) is int and 0 < self.deleted["rows"] <= self.rows))
            and all(is_entry(entry, PAYLOAD) for entry in self.entries())
            and isinstance(self.settings, dict)
            and ("database" not in self.settings or DATABASE.fullmatch(self.settings["database"]) is not None)
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each part."""
        return tuple(part["rows"] for part in self.parts)

    @property
    def rows(self) -> int:
        """All that ever came."""
        return sum(self.sizes)

    def entries(self) -> list[Entry]:
        """Every file that is part of the index."""
        of_parts = [entry for part in self.parts for entry in part["files"].values()]
        return [*of_parts, *self.files.values(), *([] if self.deleted is None else [self.deleted])]

    def named(self) -> set[str]:
        """What lies in the folder and belongs there."""
        database = {self.settings["database"]} if "database" in self.settings else set()
        return {entry["file"] for entry in self.entries()} | database

    def encoded(self) -> bytes:
        """What `read` reads, with a hash over itself."""
        content = json.loads(json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}))
        return with_checksum(content)


def _is_other_json(folder: Path) -> bool:
    """Whether somebody else's `meta.json` lies there, and not a damaged one of ours."""
    try:
        content = json.loads((folder / META).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return not isinstance(content, dict) or content.get("format") != FORMAT


def _read_json(folder: Path) -> dict[str, Any]:
    return read_json(folder, META, FORMAT, "an index")


def refuse_foreign(folder: Path, overwrite: bool) -> None:
    """A folder that an index cannot be written to: other people's files, or an index that is to stay."""
    with read_errors_as_input_errors(folder):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise InputError(f"{folder} is a file, expected a folder for the index or a new name")
        there = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    others = [name for name in there if name != META and not is_own(name)]
    if others or (META in there and _is_other_json(folder)):
        raise InputError(
            f"{folder} holds other files ({min(others or [META])}), expected an empty folder or a new name"
        )
    if META in there and not overwrite:
        raise InputError(f"{folder} holds an index already; overwrite it or choose a new name")


def swept(folder: Path) -> None:
    """Remove what the folder's `meta.json` does not name."""
    try:
        named = Meta.read(folder).named()
    except InputError:
        if (folder / META).exists():  # damaged: what it named cannot be told, and may be all there is
            return
        named = set()
    sweep(folder, named)
