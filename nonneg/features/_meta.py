"""`meta.json`: the list of what a features folder holds. Replacing it commits a save."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nonneg.durable import read_json, with_checksum, without_checksum
from nonneg.errors import InputError
from nonneg.payload import Entry, is_entry

META = "meta.json"
FORMAT, VERSION = "nonneg.features", 1
_CODES = {"csr": {"data", "indices", "indptr"}, "dense": {"codes"}}
_OTHERS = {"labels", "pixels", "samples"}
PAYLOAD = re.compile(rf"({'|'.join(sorted(_CODES['csr'] | _CODES['dense'] | _OTHERS))})-[0-9a-f]{{16}}\.(npy|arrow)")


@dataclass(frozen=True)
class Meta:
    """The checked content of a `meta.json`."""

    layout: str
    shape: tuple[int, int]
    label_names: tuple[str, ...]
    provenance: dict[str, Any]
    files: dict[str, Entry]

    @classmethod
    def read(cls, folder: Path) -> "Meta":
        """Read and check a folder's `meta.json`.

        Raises:
            InputError: if it is damaged, of another format or of another version.
        """
        path = folder / META
        content = without_checksum(path, _read_json(folder), VERSION)
        try:
            samples, features = content["shape"]
            meta = cls(
                layout=content["layout"],
                shape=(samples, features),
                label_names=tuple(content["label_names"]),
                provenance=dict(content["provenance"]),
                files={name: dict(entry) for name, entry in content["files"].items()},
            )
            is_valid = meta._is_valid()
        except (KeyError, TypeError, ValueError, AttributeError):
            is_valid = False
        if not is_valid:
            raise InputError(f"{path} is damaged: its fields are not those of {FORMAT} version {VERSION}")
        return meta

    def _is_valid(self) -> bool:
        """Whether types and names are right and no file name leads out of the folder."""
        codes = _CODES[self.layout]
        return (
            all(type(n) is int and 0 < n < 2**31 for n in self.shape[1:])
            and all(type(n) is int and 0 < n < 2**48 for n in self.shape[:1])
            and all(isinstance(name, str) for name in self.label_names)
            and codes <= set(self.files) <= codes | _OTHERS
            and all(is_entry(entry, PAYLOAD) for entry in self.files.values())
        )

    def codes_key(self) -> str:
        """Return a digest of the codes, to which names of features are bound."""
        parts = sorted(entry["sha256"] for name, entry in self.files.items() if name not in _OTHERS)
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    def encoded(self) -> bytes:
        """Return the JSON that `read` reads, with a hash over itself."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "layout": self.layout,
            "shape": list(self.shape),
            "label_names": list(self.label_names),
            "provenance": self.provenance,
            "files": self.files,
        }
        return with_checksum(content)


def is_features(path: str | Path) -> bool:
    """Whether a folder has the `meta.json` of saved `Features`, which may still be damaged."""
    try:
        _read_json(Path(path))
    except InputError:
        return False
    return True


def _read_json(folder: Path) -> dict[str, Any]:
    return read_json(folder, META, FORMAT, "a features folder")
