"""Suggested names for features: words of the texts that activate them, scored on held-out texts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

from nonneg.codes import active
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.messages import one_line

_LEAST_TEXTS = 3  # a word in fewer texts is not used
_WORD = r"(?u)\b[^\W\d_]{3,}\b"  # at least three letters, no digits
_FEATURES_AT_A_TIME = 256


@dataclass(frozen=True)
class Suggestion:
    """A suggested name for a feature.

    Attributes:
        words: most distinctive first.
        score: area under the ROC curve on held-out texts: the probability that a text with the feature has more of
            the words than a text without it (0.5 is chance).
        active: number of held-out texts with the feature.
    """

    words: tuple[str, ...]
    score: float
    active: int

    @property
    def name(self) -> str:
        return ", ".join(self.words)


def suggest_names(features: Features, words: int = 3, least_active: int = 10, seed: int = 0) -> dict[int, Suggestion]:
    """Suggest the words that distinguish the texts a feature is active on.

    Half of the texts give the words: those with the largest z-score of the log-odds ratio between the texts of the
    feature and all others, with a Dirichlet prior (Monroe, Colaresi and Quinn, 2008). The other half gives the score.

    Args:
        features: features with texts.
        words: number of words in a name.
        least_active: a feature is named if it is active on so many texts of both halves.
        seed: decides which texts are in which half.

    Returns:
        Feature to suggestion, for the features that are active often enough.
    """
    if "text" not in features.samples.column_names:
        raise InputError("suggest_names: the features have no texts, expected one per sample")
    texts = [text or "" for text in features.samples["text"].to_pylist()]
    vectoriser = CountVectorizer(binary=True, stop_words="english", min_df=_LEAST_TEXTS, token_pattern=_WORD)
    try:
        contains = sp.csr_array(vectoriser.fit_transform(texts)).astype(np.float32)
    except ValueError as error:
        raise InputError(f"suggest_names: the texts share no words: {one_line(error)}") from error
    vocabulary = vectoriser.get_feature_names_out()
    order = np.random.default_rng(seed).permutation(len(texts))
    chosen, kept = order[: len(order) // 2], order[len(order) // 2 :]
    is_active = sp.csr_array(active(features.codes)).astype(np.float32)
    often = np.minimum(*(np.asarray(is_active[rows].sum(axis=0)).ravel() for rows in (chosen, kept)))
    suggestions = {}
    candidates = np.flatnonzero(often >= least_active)
    for start in range(0, len(candidates), _FEATURES_AT_A_TIME):
        some = candidates[start : start + _FEATURES_AT_A_TIME]
        odds = _log_odds(is_active[chosen][:, some], contains[chosen])
        for feature, row in zip(some, odds, strict=True):
            best = np.argsort(-row, kind="stable")[:words]
            best = best[row[best] > 0]
            if len(best):
                hits = np.asarray(contains[kept][:, best].sum(axis=1)).ravel()
                fires = is_active[kept][:, [feature]].toarray().ravel() > 0
                named = tuple(str(vocabulary[i]) for i in best)
                suggestions[int(feature)] = Suggestion(
                    named, _area_under_roc(hits[fires], hits[~fires]), int(fires.sum())
                )
    return suggestions


def _log_odds(active: Any, contains: Any) -> Any:
    """Return the log-odds ratio of each word with and without the feature, in standard errors, `(features, words)`."""
    with_feature = np.asarray((active.T @ contains).todense())
    everywhere = np.asarray(contains.sum(axis=0)).ravel()
    without = everywhere - with_feature
    # The prior adds a hundred words of the usual frequencies to each side; words absent from this half get 1e-3.
    prior = (everywhere + 1e-3) / (everywhere + 1e-3).sum() * 100
    n_with, n_without = (side.sum(1, keepdims=True) + 100 for side in (with_feature, without))
    a, b = with_feature + prior, without + prior
    # The other words are none if there is only one word.
    other_a, other_b = np.maximum(n_with - a, 1e-9), np.maximum(n_without - b, 1e-9)
    difference = np.log(a / other_a) - np.log(b / other_b)
    return difference / np.sqrt(1 / a + 1 / b)


def _area_under_roc(a: Any, b: Any) -> float:
    """Return the probability that a value of `a` is larger than one of `b`; ties count half."""
    if not len(a) or not len(b):
        return 0.5
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a, "left") + np.searchsorted(ordered, a, "right")
    return float(below.mean() / (2 * len(b)))
