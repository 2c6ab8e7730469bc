"""`Query`: what to look for, in words that can be saved: samples, features, new inputs, and what to leave out."""

import json
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nonneg.durable import read_errors_as_input_errors, write_atomically
from nonneg.errors import InputError

Feature = int | str
"""A feature's number or its name."""
_LARGEST = 2**24  # bytes of a file that is looked at before it is replaced


@dataclass(frozen=True)
class Query:
    """What to look for. It is saved as JSON and runs again.

    The code that is searched with is a sum: the codes of samples and new inputs, each brought to length 1, and
    features with their weights; what is to be unlike is subtracted. A feature that falls below zero by that is off:
    codes stay non-negative. The samples that were named are no hits.

    Attributes:
        like: ids of samples to be like.
        minus: ids of samples to be unlike.
        features: features, by number or name, and how much of them.
        image: the path of an image file.
        vector: the path of a file with one vector, as the embedding was fitted on.
        text: a text.
        without: features that no hit may have, by number or name.
        label: the label that every hit must have.
        k: how many hits at most.

    Example:
        >>> query = Query(like=("train/17",), features=(("wheels", 0.5),), without=(4,))
        >>> Query.from_json(query.to_json()) == query
        True
    """

    like: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()
    features: tuple[tuple[Feature, float], ...] = ()
    image: str | None = None
    vector: str | None = None
    text: str | None = None
    without: tuple[Feature, ...] = ()
    label: str | None = None
    k: int = 10

    def __post_init__(self) -> None:
        for name, ids in (("like", self.like), ("minus", self.minus)):
            if not isinstance(ids, tuple) or not all(isinstance(value, str) for value in ids):
                raise InputError(f"{name} is {ids!r}, expected ids, a string each")
        for name, features in (("features", tuple(pair[0] for pair in self._pairs())), ("without", self.without)):
            if not isinstance(features, tuple) or not all(_is_feature(feature) for feature in features):
                raise InputError(f"{name} is {features!r}, expected numbers or names of features")
        for feature, weight in self.features:
            if type(weight) not in (int, float) or not 0 < weight < math.inf:
                raise InputError(
                    f"feature {feature!r} has the weight {weight!r}, expected more than 0; to leave samples out that"
                    " have it, name it in without"
                )
        for name in ("image", "vector", "text", "label"):
            if not isinstance(getattr(self, name), str | None):
                raise InputError(f"{name} is {getattr(self, name)!r}, expected a string")
        if type(self.k) is not int or self.k < 1:
            raise InputError(f"k is {self.k!r}, expected a whole number, at least 1")
        if not (self.like or self.features or self.inputs):
            raise InputError(
                "the query names nothing to look for, expected a sample, a feature, an image, a vector or a text"
            )

    def _pairs(self) -> tuple[tuple[Feature, float], ...]:
        if not isinstance(self.features, tuple) or not all(isinstance(p, tuple) and len(p) == 2 for p in self.features):
            raise InputError(f"features is {self.features!r}, expected pairs of a feature and its weight")
        return self.features

    @property
    def inputs(self) -> dict[str, str]:
        """What an encoder has to make a code of, by its kind."""
        given = {name: getattr(self, name) for name in ("image", "vector", "text")}
        return {name: value for name, value in given.items() if value is not None}

    def to_json(self) -> str:
        """Only what differs from an empty query."""
        usual = {field.name: field.default for field in fields(self)}
        content = {name: value for name, value in asdict(self).items() if value != usual[name] or name == "k"}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> "Query":
        """What `to_json` wrote, or a person; unknown keys are refused by name."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError("the query is not JSON") from error
        known = [field.name for field in fields(cls)]
        if not isinstance(content, dict):
            raise InputError(f"the query is a {type(content).__name__}, expected an object")
        for name in content:
            if name not in known:
                raise InputError(f"the query has the key {name!r}, expected some of {', '.join(known)}")
        return cls(**{name: _as_tuple(value) for name, value in content.items()})

    def save(self, path: str | Path) -> None:
        """Write to a file, whole or not at all; in the place of an earlier query, but of nothing else."""
        with read_errors_as_input_errors(Path(path)):
            is_there = Path(path).exists()
        if is_there and not self._is_saved(Path(path)):
            raise InputError(f"{path} exists already and is no saved query, expected a new name or that of a query")
        write_atomically(Path(path), self.to_json().encode())

    @classmethod
    def _is_saved(cls, path: Path) -> bool:
        """Whether a file holds a query."""
        try:
            with read_errors_as_input_errors(path):
                if not path.is_file() or path.stat().st_size > _LARGEST:
                    return False
            cls.load(path)
        except InputError:
            return False
        return True

    @classmethod
    def load(cls, path: str | Path) -> "Query":
        """Read from a file."""
        with read_errors_as_input_errors(Path(path)):
            content = Path(path).read_bytes()
        try:
            return cls.from_json(content)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def parsed_feature(given: str, names: Collection[str] = ()) -> tuple[Feature, float]:
    """A feature with its weight, as a person types it.

    Args:
        given: `17:0.5`, `17`, `wheels:0.5` or `wheels`.
        names: that there are; where one of them is given, it is that one, whatever it ends in.

    Example:
        >>> parsed_feature("17:0.5"), parsed_feature("wheels"), parsed_feature("time: noon")
        ((17, 0.5), ('wheels', 1.0), ('time: noon', 1.0))
        >>> parsed_feature("ratio 2:1"), parsed_feature("ratio 2:1", names=["ratio 2:1"])
        (('ratio 2', 1.0), ('ratio 2:1', 1.0))
    """
    if given in names:
        return given, 1.0
    name, colon, weight = given.rpartition(":")
    try:
        return (numbered(name), float(weight)) if colon and name else (numbered(given), 1.0)
    except ValueError:
        return numbered(given), 1.0


def numbered(given: str) -> Feature:
    """A number where it is one, else a name."""
    return int(given) if given.isdecimal() else given


def _is_feature(value: Any) -> bool:
    return type(value) in (int, str)


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(part) for part in value) if isinstance(value, list) else value
