"""How well a feature's name predicts where the feature is active, estimated on held-out samples."""

import re
from typing import Any

import numpy as np

from nonneg.explorer._answers import NameScore
from nonneg.explorer._feature_set import FeatureSet
from nonneg.labels import is_labelled
from nonneg.naming import area_under_roc
from nonneg.payload import Array

_MIN_SAMPLES = 5  # active and inactive samples per half
_MAX_SAMPLES = 500  # active and inactive samples per half
_MIN_LETTERS = 3  # length of a word that a name and a label may share
_WORD = re.compile(r"[^\W_]{2,}")


def name_score(features: FeatureSet, feature: int, rows: Array) -> NameScore | None:
    """Score a feature's name by how well texts fit it, or by a label that shares a word with it.

    One half of the samples chooses the criterion, the other half is scored: the probability that an active sample
    fits the name better (or has the label) than an inactive one, with ties counted as one half.

    Args:
        features: the set that contains the feature.
        feature: its column.
        rows: the rows on which it is active.

    Returns:
        None without a name, without a criterion or with too few samples.
    """
    name = features.names.current().get(feature)
    if name is None:
        return None
    generator = np.random.default_rng(feature)
    is_inactive = np.ones(len(features), bool)
    is_inactive[rows] = False
    active_halves, inactive_halves = (_halves(each, generator) for each in (rows, np.flatnonzero(is_inactive)))
    if min(map(len, (*active_halves, *inactive_halves))) < _MIN_SAMPLES:
        return None
    scored = [
        (area_under_roc(fits(active_halves[0]), fits(inactive_halves[0])), criterion, fits)
        for criterion, fits in _criteria(features, name, active_halves[0], inactive_halves[0])
    ]
    if not scored:
        return None
    _, criterion, fits = max(scored, key=lambda each: each[0])
    score = area_under_roc(fits(active_halves[1]), fits(inactive_halves[1]))
    return NameScore(criterion=criterion, score=score, active=len(active_halves[1]))


def _criteria(features: FeatureSet, name: str, active: Array, inactive: Array) -> list[tuple[str, Any]]:
    """Descriptions of criteria, each with a function from rows to numbers that are larger where the name fits.

    Of the labels that share a word with the name, only the best one for these active and inactive rows is a criterion.
    """
    found: list[tuple[str, Any]] = []
    words = _WORD.findall(name.lower())[:20]
    if features.reader is not None:
        reader, texts = features.reader, features.features.samples["text"]

        def fits(rows: Array) -> Array | None:
            return reader.fits(name, reader.texts([text or "" for text in texts.take(rows).to_pylist()]))

        if reader.name(name) is not None:
            found.append(("the words of the name and words that occur with them", fits))
    if features.features.labels is None:
        return found
    labels = np.asarray(features.features.labels)
    known, name_of = np.unique(labels[is_labelled(labels)]).tolist(), features.features.label_name
    similar = [label for label in known if _share_a_word(words, _WORD.findall(name_of(label).lower()))]
    if similar:
        on, off = labels[active], labels[inactive]
        best = max(similar, key=lambda label: (on == label).mean() - (off == label).mean())
        found.append((f"the label “{name_of(best)}”", lambda rows: labels[rows] == best))
    return found


def _share_a_word(words: list[str], others: list[str]) -> bool:
    """Whether one word contains another, apart from a final s: "ships" and "ship", "planes" and "airplane"."""
    stems = [[word.removesuffix("s") for word in some if len(word) >= _MIN_LETTERS] for some in (words, others)]
    return any(a in b or b in a for a in stems[0] for b in stems[1])


def _halves(rows: Array, generator: np.random.Generator) -> tuple[Array, Array]:
    order = generator.permutation(rows)[: 2 * _MAX_SAMPLES]
    return order[: len(order) // 2], order[len(order) // 2 :]
