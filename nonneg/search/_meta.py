"""The `meta.json` of an index's folder."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from nonneg.errors import InputError
from nonneg.manifest import Manifest, check_claim
from nonneg.payload import Entry

_LISTS = {"starts", "places", "values"}
_ALONE = {"ids", "labels"}
_DATABASE = r"milvus-[0-9a-f]{16}\.db"


@dataclass(frozen=True)
class Meta(Manifest):
    """The content of a `meta.json`.

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

    format = "nonneg.index"
    version = 2
    content = "an index"
    file_names = re.compile(
        rf"(ids|labels|starts|places|values|scales|deleted|seismic)-[0-9a-f]{{16}}\.(npy|arrow|seismic)|{_DATABASE}"
    )

    engine: str
    features: Annotated[int, Field(gt=0, lt=2**31)]
    cosine: bool
    fingerprint: str
    label_names: tuple[str, ...]
    parts: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]
    deleted: Entry | None
    settings: dict[str, Any]
    files: dict[str, Entry]

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = [part["rows"] for part in self.parts]
        marked = [] if self.deleted is None else [self.deleted["rows"]]
        are_numbers = all(type(number) is int and number > 0 for number in rows + marked)
        if not are_numbers or not sum(marked) <= sum(rows) < 2**31:
            raise InputError(f"parts have {rows} rows, of which {marked} may be deleted, expected numbers above 0")
        names = [set(part["files"]) for part in self.parts]
        are_complete = all(each <= _ALONE or _LISTS <= each <= _LISTS | _ALONE | {"scales"} for each in names)
        if not are_complete or (self.engine == "seismic") != ("seismic" in self.files):
            raise InputError(f"files are {names} and {set(self.files)}, expected those of engine {self.engine}")
        check_claim("rows and features", max(sum(rows), self.features), self._of_parts())
        if not all(re.fullmatch(_DATABASE, name) for name in self._databases()):
            raise InputError(f"settings have the database {self.settings['database']!r}, expected a name in the folder")

    def entries(self) -> list[Entry]:
        return [*self._of_parts(), *self.files.values(), *([] if self.deleted is None else [self.deleted])]

    def _of_parts(self) -> list[Entry]:
        return [entry for part in self.parts for entry in part["files"].values()]

    def listed(self) -> set[str]:
        return super().listed() | self._databases()

    def _databases(self) -> set[str]:
        return {self.settings["database"]} if "database" in self.settings else set()
