"""Names for features, from the words of the texts that activate them; scored on texts they were not made from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

from nonneg.codes import active
from nonneg.errors import InputError
from nonneg.features import Features

_LEAST_TEXTS = 3  # that a word must be in to name anything
_WORD = r"(?u)\b[^\W\d_]{3,}\b"  # three letters or more, no digits
_FEATURES_AT_A_TIME = 256


@dataclass(frozen=True)
class Suggestion:
    """A name for a feature.

    Attributes:
        words: the most distinctive first.
        score: how well they tell, on texts that the words were not chosen from, whether the feature is active: the
            probability that a text with the feature has more of the words than one without (0.5 is chance).
        active: texts the score rests on that have the feature.
    """

    words: tuple[str, ...]
    score: float
    active: int

    @property
    def name(self) -> str:
        return ", ".join(self.words)


def suggest_names(features: Features, words: int = 3, least_active: int = 10, seed: int = 0) -> dict[int, Suggestion]:
    """The words that set apart the texts a feature is active on.

    Half of the texts give the words: those whose log odds among the texts of the feature, against all others,
    exceed chance the most (weighted log odds with a prior, after Monroe and others). The other half gives the score.

    Args:
        features: with texts.
        words: of a name.
        least_active: texts of either half that a feature must be active on to be named.
        seed: of the halves.

    Returns:
        Feature to suggestion, for the features that are active often enough.
    """
    if "text" not in features.samples.column_names:
        raise InputError("suggest_names: the features have no texts, expected one for each sample")
    texts = [text or "" for text in features.samples["text"].to_pylist()]
    vectoriser = CountVectorizer(binary=True, stop_words="english", min_df=_LEAST_TEXTS, token_pattern=_WORD)
    try:
        contains = sp.csr_array(vectoriser.fit_transform(texts)).astype(np.float32)
    except ValueError as error:
        raise InputError(f"suggest_names: the texts share no words: {' '.join(str(error).split())}") from error
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
                suggestions[int(feature)] = Suggestion(named, _above(hits[fires], hits[~fires]), int(fires.sum()))
    return suggestions


def _log_odds(active: Any, contains: Any) -> Any:
    """`(features, words)`: log odds of each word with the feature against without it, in standard errors."""
    with_feature = np.asarray((active.T @ contains).todense())
    everywhere = np.asarray(contains.sum(axis=0)).ravel()
    without = everywhere - with_feature
    # As if each side had a hundred words more, of the usual kind; a word that this half lacks has a trace of one.
    prior = (everywhere + 1e-3) / (everywhere + 1e-3).sum() * 100
    n_with, n_without = (side.sum(1, keepdims=True) + 100 for side in (with_feature, without))
    a, b = with_feature + prior, without + prior
    # Where there is one word alone, nothing is left beside it.
    beside_a, beside_b = np.maximum(n_with - a, 1e-9), np.maximum(n_without - b, 1e-9)
    difference = np.log(a / beside_a) - np.log(b / beside_b)
    return difference / np.sqrt(1 / a + 1 / b)


def _above(a: Any, b: Any) -> float:
    """The probability that one of `a` is larger than one of `b`, ties halved."""
    if not len(a) or not len(b):
        return 0.5
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a, "left") + np.searchsorted(ordered, a, "right")
    return float(below.mean() / (2 * len(b)))
