"""How well a name tells whether its feature is active, on samples that the choice was not made by."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nonneg.explorer._answers import NameScore
from nonneg.explorer._feature_set import FeatureSet

Array = npt.NDArray[Any]
_LEAST = 5  # active samples of either half
_MOST = 2_000  # samples of either side, of either half
_LEAST_LETTERS = 3  # of a word that two names may share
_WORD = re.compile(r"[^\W_]{2,}")


def name_score(features: FeatureSet, feature: int, rows: Array) -> NameScore | None:
    """Score a feature's name by its words, where samples are texts, or by the labels that it names.

    Half of the samples choose between them, the other half is scored: the probability that a sample with the
    feature has more of the words (or the label) than one without, ties halved. None where there is no name, or
    nothing to score it by: a name that no label shares a word with says nothing that images could be asked.
    """
    name = features.names.current().get(feature)
    if name is None:
        return None
    generator = np.random.default_rng(feature)
    is_off = np.ones(len(features), bool)
    is_off[rows] = False
    halves = zip(_halves(rows, generator), _halves(np.flatnonzero(is_off), generator), strict=True)
    (with_a, without_a), (with_b, without_b) = halves
    if min(map(len, (with_a, without_a, with_b, without_b))) < _LEAST:
        return None
    best: tuple[float, str, Any] | None = None
    for by, fits in _predictors(features, name):
        score = _above(fits(with_a), fits(without_a))
        if best is None or score > best[0]:
            best = (score, by, fits)
    if best is None:
        return None
    _, by, fits = best
    return NameScore(by=by, score=_above(fits(with_b), fits(without_b)), active=len(with_b))


def _predictors(features: FeatureSet, name: str) -> list[tuple[str, Any]]:
    """What a name may be read as: function of rows to numbers, larger where the name fits."""
    found: list[tuple[str, Any]] = []
    words = _WORD.findall(name.lower())[:20]
    if "text" in features.features.samples.column_names and words:
        texts = features.features.samples["text"]
        found.append(("the words of the name", lambda rows: _hits(texts, rows, words)))
    if features.features.labels is None:
        return found
    labels = np.asarray(features.features.labels)
    for label in np.unique(labels[labels >= 0]).tolist():
        called = features.features.label_name(label)
        if _share_a_word(words, _WORD.findall(called.lower())):
            found.append((f"the label “{called}”", lambda rows, label=label: labels[rows] == label))
    return found


def _share_a_word(words: list[str], others: list[str]) -> bool:
    """Ships and ship, planes and airplane."""
    stems = [[word.removesuffix("s") for word in some if len(word) >= _LEAST_LETTERS] for some in (words, others)]
    return any(a in b or b in a for a in stems[0] for b in stems[1])


def _hits(texts: Any, rows: Array, words: list[str]) -> Array:
    """How many of the words each text has."""
    lower = pc.fill_null(pc.utf8_lower(texts.take(pa.array(rows))), "")
    return sum((np.asarray(pc.match_substring(lower, word)).astype(int) for word in words), np.zeros(len(rows), int))


def _halves(rows: Array, generator: np.random.Generator) -> tuple[Array, Array]:
    order = generator.permutation(rows)[: 2 * _MOST]
    return order[: len(order) // 2], order[len(order) // 2 :]


def _above(a: Array, b: Array) -> float:
    """The probability that one of `a` is larger than one of `b`, ties halved."""
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a, "left") + np.searchsorted(ordered, a, "right")
    return float(below.mean() / (2 * len(b)))
