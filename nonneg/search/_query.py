"""`Query`: what to search for, in a form that can be saved: samples, features, new inputs and filters."""

import json
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from nonneg.durable import read_bounded, sealed, unsealed, write_atomically
from nonneg.errors import InputError
from nonneg.validation import build, check_fields

Feature = int | str
"""A feature's number or its name."""
_MOST_BYTES = 2**24  # of a saved query


@dataclass(frozen=True)
class Query:
    """What to search for. It can be saved as JSON and run again.

    The query's code is a sum: the codes of samples and new inputs, each scaled to length 1, and features with their
    weights; the codes of the samples in `minus` are subtracted. Negative entries of the sum are set to zero. Query
    samples are excluded from the results.

    Attributes:
        like: ids of samples that hits should resemble.
        minus: ids of samples that hits should not resemble.
        features: features, by number or name, with their weights.
        image: the path of an image file.
        vector: the path of a file with one vector, of the kind that the embedding was fitted on.
        text: a text.
        sample: a new sample of any kind that the run encodes: a path, or the text itself.
        without: features, by number or name, that must not be active on any hit.
        require: features, by number or name, that must be active on every hit.
        label: the label that every hit must have.
        k: the largest number of hits.
        cosine: compare directions: samples' codes are scaled to length 1. If false, codes are used as they are.

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
    sample: str | None = None
    without: tuple[Feature, ...] = ()
    require: tuple[Feature, ...] = ()
    label: str | None = None
    k: Annotated[int, Field(ge=1)] = 10
    cosine: bool = True

    def __post_init__(self) -> None:
        _check_weights(self.features)
        check_fields(self)
        if not (self.like or self.features or self.inputs):
            raise InputError("the query is empty, expected a sample, a feature, an image, a vector or a text")

    @property
    def inputs(self) -> dict[str, str]:
        """The inputs that an encoder must make codes of, by their kind."""
        given = {name: getattr(self, name) for name in ("image", "vector", "text", "sample")}
        return {name: value for name, value in given.items() if value is not None}

    def to_json(self) -> str:
        """Return the query as JSON; defaults are omitted, except for k."""
        usual = {field.name: field.default for field in fields(self)}
        content = {name: value for name, value in asdict(self).items() if value != usual[name] or name == "k"}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> "Query":
        """Read a query from JSON; an unknown key is an error."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError("the query is not JSON") from error
        if not isinstance(content, dict):
            raise InputError(f"the query is a {type(content).__name__}, expected an object")
        query: Query = build(cls, {name: _as_tuple(value) for name, value in unsealed(content).items()})
        return query

    def save(self, path: str | Path) -> None:
        """Write to a file atomically; it may replace an earlier query but no other file."""
        file = Path(path)
        try:
            if file.exists():
                self.load(file)
        except InputError as error:
            raise InputError(
                f"{path} exists already and is not a saved query, expected a new name or that of a query"
            ) from error
        write_atomically(file, json.dumps(sealed(json.loads(self.to_json())), indent=1, ensure_ascii=False).encode())

    @classmethod
    def load(cls, path: str | Path) -> "Query":
        """Read from a file."""
        content = read_bounded(Path(path), _MOST_BYTES)
        try:
            return cls.from_json(content)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _check_weights(features: Any) -> None:
    """Raise an error for a weight that is not finite or not above 0; other mistakes are left to `check_fields`."""
    for given in features if isinstance(features, list | tuple) else ():
        weight = given[1] if isinstance(given, list | tuple) and len(given) == 2 else None
        if isinstance(weight, int | float) and not 0 < weight < math.inf:
            hint = "; to exclude samples that have it, use without" if weight <= 0 else ""
            raise InputError(f"feature {given[0]!r} has the weight {weight!r}, expected a finite number above 0{hint}")


def parsed_feature(given: str, names: Collection[str] = ()) -> tuple[Feature, float]:
    """Parse a feature and its weight as people type them.

    Args:
        given: `17:0.5`, `17`, `wheels:0.5` or `wheels`.
        names: the known names; a known name is never split, whatever it ends in.

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
    """Return an integer for digits, at most 18 of them, otherwise the name itself."""
    return int(given) if given.isdecimal() and len(given) < 19 else given


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(part) for part in value) if isinstance(value, list) else value
