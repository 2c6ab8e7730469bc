"""The `meta.json` of a features folder."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from nonneg.errors import InputError
from nonneg.features import _names, _suggested
from nonneg.manifest import Manifest, check_claim
from nonneg.payload import Entry

_CODES = {"csr": {"data", "indices", "indptr"}, "dense": {"codes"}}
_OTHERS = {"labels", "pixels", "samples"}
_PART = re.compile(r"(data|indices|samples)\.(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class Meta(Manifest):
    """The content of a `meta.json`: the shape of the codes, and the files of arrays and tables by name."""

    format = "nonneg.features"
    version = 2  # since 2, provenance names the model's columns, and images may be pixels
    content = "features"
    file_names = re.compile(r"(data|indices|indptr|codes|labels|pixels|samples)-[0-9a-f]{16}\.(npy|arrow)")
    unlisted = frozenset({_names.FILE, _suggested.SUGGESTIONS, _suggested.MAP})

    layout: Literal["csr", "dense"]
    shape: tuple[Annotated[int, Field(gt=0, lt=2**48)], Annotated[int, Field(gt=0, lt=2**31)]]
    label_names: tuple[str, ...]
    provenance: dict[str, Any]
    files: dict[str, Entry]

    def __post_init__(self) -> None:
        super().__post_init__()
        codes = _CODES[self.layout]
        if not codes <= set(map(_base, self.files)) <= codes | _OTHERS:
            raise InputError(f"files are {', '.join(self.files)}, expected {', '.join(codes)} and perhaps others")
        check_claim("features", self.shape[1], self.entries())

    def entries(self) -> list[Entry]:
        return list(self.files.values())

    def parts(self, name: str) -> list[Entry]:
        """Return the entries of an array or table in order: one, or one for each part that it was written in."""
        names = sorted((each for each in self.files if _base(each) == name), key=lambda each: (len(each), each))
        return [self.files[each] for each in names]

    def codes_key(self) -> str:
        """Return a digest of the codes, to which names of features are bound."""
        parts = sorted(entry["sha256"] for name, entry in self.files.items() if _base(name) not in _OTHERS)
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def _base(name: str) -> str:
    """Return the name of an array or table without the number of its part: `data.3` is a part of `data`."""
    found = _PART.fullmatch(name)
    return found[1] if found else name


def is_features(path: str | Path) -> bool:
    """Whether a folder has the `meta.json` of saved `Features`, which may still be damaged."""
    return Meta.is_in(Path(path))


check_writable = Meta.check_writable
"""Check that features may be saved in a folder, for callers that compute them afterwards."""
remove_leftovers = Meta.remove_leftovers
"""Remove the files in a folder of features that do not belong to what was last saved there."""
