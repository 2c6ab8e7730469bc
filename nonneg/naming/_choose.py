"""The choice of a name's words: greedy, by how well they rank a feature's texts before others."""

from collections.abc import Sequence

import numpy as np

from nonneg.naming._reader import area_under_roc
from nonneg.payload import Array

_OTHERS = 400  # texts without the feature that are compared with those that have it
_GAIN = 0.003  # a further word must raise the value of a name by this much
_NEAR = 0.25  # weight of telling a feature apart from similar ones, relative to telling it apart from all
_CONTAINED = 0.4  # weight of the share of the feature's texts that contain a word, minus that of the others
_COHERENCE = 0.2  # least cosine of a further word with the words before it: a name should be about one thing


class Choice:
    """The texts that a name should fit, and two kinds of texts that it should not fit.

    Args:
        points: `(texts, dimensions)`.
        words: `(terms, dimensions)`.
        own: the texts on which the feature is active.
        weights: how much each of them counts.
        near: texts of similar features on which it is inactive.
    """

    def __init__(self, points: Array, words: Array, own: Array, weights: Array, near: Array) -> None:
        generator = np.random.default_rng(len(own))
        drawn = generator.choice(len(points), min(len(points), 2 * _OTHERS), replace=False)
        others = generator.permutation(np.setdiff1d(drawn, own))  # which sorts
        near = near if len(near) <= _OTHERS else generator.choice(near, _OTHERS, replace=False)
        strongest = np.argsort(-weights, kind="stable")[:_OTHERS]
        self._own, self._weights = points[own[strongest]], weights[strongest]
        self._near, self._others = points[near], points[others[:_OTHERS]]
        self._words = words

    def values(self, start: Array, terms: Array) -> Array:
        """Return how good a name is that adds each of the terms to `start`, the sum of its words so far."""
        names = (start + self._words[terms]).T
        own, near, others = self._own @ names, self._near @ names, self._others @ names
        found = np.array([area_under_roc(own[:, i], others[:, i], self._weights) for i in range(len(terms))])
        if len(near):
            found += _NEAR * np.array([area_under_roc(own[:, i], near[:, i], self._weights) for i in range(len(terms))])
        if start.any():
            found[self._words[terms] @ start < _COHERENCE * np.linalg.norm(start)] -= 1
        return found

    def point(self, terms: Array) -> Array:
        """Return the sum of the points of some terms."""
        return np.asarray(self._words[terms].sum(axis=0))


def best_terms(
    choice: Choice, terms: Array, shares: Array, written: Sequence[str], most: int, taken: set[frozenset[str]]
) -> tuple[str, ...]:
    """Return the terms of the best name of at most `most` words whose words are not taken, or nothing.

    Args:
        choice: what the name should and should not fit.
        terms: the places of the candidates.
        shares: how much more frequent they are in texts with the feature than in others.
        written: all terms.
        most: the largest number of words.
        taken: the words of other names.
    """
    words = [frozenset(written[term].split()) for term in terms]
    names: list[tuple[float, tuple[int, ...]]] = []
    chosen: tuple[int, ...] = ()
    best = 0.0
    while True:
        used = frozenset().union(*(words[i] for i in chosen))
        room = [i for i in range(len(terms)) if not words[i] & used and len(words[i]) + len(used) <= most]
        if not room:
            break
        values = choice.values(choice.point(terms[list(chosen)]), terms[room])
        values += _CONTAINED * (shares[list(chosen)].sum() + shares[room])
        names += [(float(value), (*chosen, i)) for value, i in zip(values, room, strict=True)]
        top = int(values.argmax())
        if values[top] < best + _GAIN:
            break
        best, chosen = float(values[top]), (*chosen, room[top])
    for _, name in sorted(names, key=lambda each: (-each[0], each[1])):
        if frozenset().union(*(words[i] for i in name)) not in taken:
            return tuple(written[terms[i]] for i in name)
    return ()
