"""`Reader`: how well a text fits a name, by the company that words keep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.codes import unit_rows
from nonneg.errors import InputError
from nonneg.naming._words import Vocabulary
from nonneg.payload import Array

_DIMENSIONS = 50


class Reader:
    """Reads names as a person does who knows only some texts: a text about crude oil at 50 dollars a barrel fits the
    name "oil prices", because these words occur in the same texts, even though it contains neither word.

    Words are points: the leading singular vectors of the positive pointwise mutual information of words that occur in
    the same texts (Levy and Goldberg, 2014). A text is the sum of its words, weighted by how rare they are. A text
    fits a name by the sum of its cosines with the parts of the name between commas.

    Args:
        texts: the texts to learn from. What features do with them is not used.

    Example:
        >>> reader = Reader(["oil price", "price of a barrel", "oil barrel", "goal of the team", "team match"] * 3)
        >>> fits = reader.fits("oil", reader.texts(["a barrel", "the team"]))
        >>> bool(fits[0] > fits[1])
        True
        >>> reader.fits("moon", reader.texts(["a barrel"])) is None
        True
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.utils.extmath import randomized_svd

        self.vocabulary = Vocabulary(texts)
        if not len(self.vocabulary):
            raise InputError("the texts share no words, expected some words that occur in several texts")
        contains = self.contains(texts)
        counts = np.asarray(contains.sum(axis=0)).ravel()
        self._weights = np.log((1 + len(texts)) / (1 + counts)) + 1
        information = _mutual_information(contains, counts)
        wanted = min(_DIMENSIONS, information.shape[0])
        axes, scale, _ = randomized_svd(information, wanted, random_state=0)
        self.words: Array = unit_rows(axes * scale).astype(np.float32)

    def contains(self, texts: Sequence[str]) -> sp.csr_array:
        """Return `(texts, terms)` float32: 1 where a text contains a word or phrase."""
        found = [self.vocabulary.found_in(text) for text in texts]
        ends = np.cumsum([0, *map(len, found)])
        places = np.fromiter((place for some in found for place in some), np.int32, int(ends[-1]))
        shape = (len(texts), len(self.vocabulary))
        return sp.csr_array((np.ones(len(places), np.float32), places, ends), shape)

    def texts(self, texts: Sequence[str], contains: Any = None) -> Array:
        """Return the points `(texts, dimensions)` of texts, of length 1, or 0 for a text without a known word."""
        contains = self.contains(texts) if contains is None else contains
        weighted = sp.csr_array(contains @ sp.diags_array(self._weights))
        return np.asarray(unit_rows(np.asarray(weighted @ self.words)), np.float32)

    def name(self, name: str) -> Array | None:
        """Return the point `(dimensions,)` of a name, or None if none of its words is known."""
        parts = [self.vocabulary.found_in(part) for part in name.split(",")]
        sums = [self.words[part].sum(axis=0) for part in parts if part]
        return unit_rows(np.stack(sums)).sum(axis=0) if sums else None

    def fits(self, name: str, points: Array) -> Array | None:
        """Return how well each text `(texts,)`, given by its point, fits a name; None if no word of it is known."""
        point = self.name(name)
        return None if point is None else np.asarray(points @ point)


def _mutual_information(contains: sp.csr_array, counts: Array) -> sp.csr_array:
    """Return the positive pointwise mutual information `(terms, terms)` of words that share at least two texts."""
    together = sp.coo_array(contains.T @ contains)
    row, column = together.coords
    information = np.log(together.data * contains.shape[0] / (counts[row] * counts[column]))
    kept = (information > 0) & (together.data > 1) & (row != column)
    return sp.csr_array((information[kept], (row[kept], column[kept])), together.shape)


def area_under_roc(a: Any, b: Any, weights: Any = None) -> float:
    """Return the probability that a value of `a` is larger than one of `b`; ties count half.

    `weights` says how much each value of `a` counts; by default all count the same.

    Example:
        >>> area_under_roc([2, 3], [1, 2])
        0.875
    """
    if not len(a) or not len(b):
        return 0.5
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a, "left") + np.searchsorted(ordered, a, "right")
    return float(np.average(below, weights=weights) / (2 * len(b)))
