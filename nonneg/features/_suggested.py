"""What is computed about features once and saved beside their codes: suggested names, and a map of the samples.

Both files can be computed again, so a damaged one is ignored with a warning. They are bound to the codes by a digest:
after other codes are saved into the folder, they no longer apply.
"""

import json
import warnings
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.durable import read_object, sealed, unsealed, write_atomically
from nonneg.errors import InputError
from nonneg.messages import escaped
from nonneg.payload import Array

SUGGESTIONS, MAP = "suggestions.json", "map.json"
GUESS = 0.7
"""A suggested name with a lower score is a guess."""
_CODES, _SCALE = "codes", 2**16 - 1


@dataclass(frozen=True)
class Suggestion:
    """A suggested name for a feature.

    Attributes:
        name: at most three words.
        score: area under the ROC curve on held-out texts: the probability that a text with the feature fits the name
            better than a text without it (0.5 is chance); None if too few held-out texts have the feature.
        active: number of held-out texts with the feature.
    """

    name: str
    score: float | None
    active: int

    @property
    def is_guess(self) -> bool:
        """Whether the score is below 0.7 or unknown."""
        return self.score is None or self.score < GUESS


@dataclass(frozen=True)
class SampleMap:
    """Positions of samples on a map, where similar samples are close.

    Attributes:
        method: how the positions were computed.
        positions: `(samples, 2)` float32, between 0 and 1.
    """

    method: str
    positions: Array


def write_suggestions(folder: Path, codes: str, suggestions: Mapping[int, Suggestion]) -> None:
    """Save suggested names in a features folder, for the codes with this digest."""
    rows = {str(feature): [found.name, found.score, found.active] for feature, found in suggestions.items()}
    _write(folder / SUGGESTIONS, codes, {"names": rows})


def read_suggestions(folder: Path, codes: str, features: int) -> dict[int, Suggestion]:
    """Return the suggested names in a folder for the codes with this digest; empty if there are none."""
    return _read(folder / SUGGESTIONS, codes, lambda content: _suggestions(content, features)) or {}


def write_map(folder: Path, codes: str, found: SampleMap) -> None:
    """Save a map in a features folder; positions are rounded to 16 bits, which is finer than any screen."""
    rounded = np.round(np.clip(found.positions, 0, 1) * _SCALE).astype("<u2")
    _write(folder / MAP, codes, {"method": found.method, "positions": b64encode(rounded.tobytes()).decode()})


def read_map(folder: Path, codes: str, samples: int) -> SampleMap | None:
    """Return the map in a folder for the codes with this digest, or None."""
    found: SampleMap | None = _read(folder / MAP, codes, lambda content: _map(content, samples))
    return found


def check_computed(folder: Path, codes: str, shape: tuple[int, int]) -> None:
    """Raise an `InputError` if the suggestions or the map in a folder are damaged."""
    for name, parse in ((SUGGESTIONS, lambda c: _suggestions(c, shape[1])), (MAP, lambda c: _map(c, shape[0]))):
        if (folder / name).is_file():
            _parsed(folder / name, codes, parse)


def _suggestions(content: Mapping[str, Any], features: int) -> dict[int, Suggestion]:
    found = {}
    for key, (name, score, active) in content["names"].items():
        if not 0 <= int(key) < features or not isinstance(name, str) or type(active) is not int:
            raise ValueError(f"feature {key} has no valid name")
        if score is not None and (type(score) not in (int, float) or not 0 <= score <= 1):
            raise ValueError(f"feature {key} has no valid score")
        found[int(key)] = Suggestion(escaped(name), None if score is None else float(score), active)
    return found


def _map(content: Mapping[str, Any], samples: int) -> SampleMap:
    positions = np.frombuffer(b64decode(content["positions"], validate=True), "<u2").reshape(samples, 2)
    return SampleMap(str(content["method"]), positions.astype(np.float32) / _SCALE)


def _write(path: Path, codes: str, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(sealed({_CODES: codes, **content}), ensure_ascii=False).encode())


def _read(path: Path, codes: str, parse: Any) -> Any:
    if not path.is_file():
        return None
    try:
        return _parsed(path, codes, parse)
    except InputError as error:
        warnings.warn(f"{error}; it is ignored", UserWarning, stacklevel=3)
        return None


def _parsed(path: Path, codes: str, parse: Any) -> Any:
    content = unsealed(read_object(path), path)
    if content.get(_CODES) != codes:
        return None
    try:
        return parse(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged, expected what was saved") from error
