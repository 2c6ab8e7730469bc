"""Contrastive word statistics: the words that are frequent in a feature's texts and rare in all and in similar ones."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.codes import unit_rows
from nonneg.payload import Array

_RELATIVES = 5  # most similar features whose texts a name should not fit
_BY_SHARE, _BY_ODDS = 20, 15  # candidates by each statistic
_BLOCK = 512  # features at a time
_LEAST_LIKENESS = 1.5  # of two texts with a word, relative to that of any two texts


def relatives_of(codes: Any) -> Array:
    """Return `(features, 5)`: the features that are most often active on the same texts, by cosine.

    Example:
        >>> relatives_of(sp.csc_array(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])))[0].tolist()
        [1]
    """
    columns = unit_rows(sp.csr_array(codes.T)).astype(np.float32)
    texts = sp.csr_array(columns.T)
    count = min(_RELATIVES, columns.shape[0] - 1)
    # With few features, the least similar ones are no relatives but the opposite.
    count = min(count, columns.shape[0] // 2)
    found = []
    for start in range(0, columns.shape[0], _BLOCK):
        cosines = np.asarray((columns[start : start + _BLOCK] @ texts).todense())
        cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))] = -1
        found.append(np.argsort(-cosines, axis=1, kind="stable")[:, :count])
    return np.concatenate(found)


def are_telling(contains: Any, codes: Any) -> Array:
    """Return whether texts with each of the terms have similar codes, `(terms,)`.

    Texts that contain "week" or the name of a news agency are about as different as any two texts: such a word says
    nothing about the features of a text, even if it is a little more frequent with some of them.

    Args:
        contains: `(texts, terms)`, 1 where a text contains a term.
        codes: `(texts, features)`, CSR, rows of length 1.

    Example:
        >>> contains = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 1]])
        >>> are_telling(contains, sp.csr_array(np.repeat(np.eye(2), 2, axis=0))).tolist()
        [True, True, False]
    """
    usual = _likeness(np.ones((1, codes.shape[0])) @ abs(codes), np.array([codes.shape[0]]))
    # Of dense codes, any two are alike: half of the way to equal codes is then enough.
    least = np.minimum(_LEAST_LIKENESS * usual, (1 + usual) / 2)
    sums = sp.csr_array(sp.csr_array(contains).T) @ abs(codes)
    return np.asarray(_likeness(sums, np.asarray(contains.sum(axis=0)).ravel()) >= least)


def _likeness(sums: Any, counts: Array) -> Array:
    """Return the mean cosine of two of the rows of length 1 that were added up to each of the sums."""
    squares = np.asarray((sums * sums).sum(axis=1)).ravel()
    return np.asarray((squares - counts) / np.maximum(counts * (counts - 1), 1))


def candidate_terms(
    contains: Any, counts: Array, usable: Array, own: Array, weights: Array, near: Array
) -> tuple[Array, Array]:
    """Return the places of the words and phrases that may name a feature, and how much more frequent they are with it.

    Args:
        contains: `(texts, terms)`, 1 where a text contains a term.
        counts: `(terms,)`: the number of texts that contain each.
        usable: `(terms,)`: whether each may be used.
        own: the texts on which the feature is active.
        weights: how much each of them counts; 1 on average.
        near: texts of similar features on which it is inactive.
    """
    with_feature = np.asarray(weights @ contains[own]).ravel()
    rest = max(contains.shape[0] - len(own), 1)
    others = np.maximum(counts - np.asarray(contains[own].sum(axis=0)).ravel(), 0)
    # One text less: a word of a single text says nothing about the others.
    difference = (with_feature - 1) / len(own) - others / rest
    odds = log_odds(with_feature, others)
    if len(near):
        odds = odds + log_odds(with_feature, np.asarray(contains[near].sum(axis=0)).ravel())
    usable = usable & (with_feature > 0) & (odds > 0)
    usual = np.argsort(np.where(usable, -difference, np.inf), kind="stable")[:_BY_SHARE]
    telling = np.argsort(np.where(usable, -odds, np.inf), kind="stable")[:_BY_ODDS]
    found = np.array(list(dict.fromkeys([*usual.tolist(), *telling.tolist()])), int)
    found = found[usable[found]]
    return found, difference[found]


def log_odds(a: Array, b: Array) -> Array:
    """Return the log-odds ratio of each word in `a` against `b`, in standard errors.

    Counts `(terms,)` get a Dirichlet prior: a hundred words of the usual frequencies (Monroe, Colaresi, Quinn, 2008).
    """
    both = a + b + 1e-3
    prior = both / both.sum() * 100
    n_a, n_b = a.sum() + 100, b.sum() + 100
    a, b = a + prior, b + prior
    # The other words are none if there is only one word.
    difference = np.log(a / np.maximum(n_a - a, 1e-9)) - np.log(b / np.maximum(n_b - b, 1e-9))
    return np.asarray(difference / np.sqrt(1 / a + 1 / b))
