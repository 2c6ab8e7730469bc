"""Names of at most three words for all features of texts, no two alike, each with a score from held-out texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.codes import active
from nonneg.errors import InputError
from nonneg.features import Features, Suggestion, codes_key, write_suggestions
from nonneg.naming._choose import Choice, best_terms
from nonneg.naming._contrast import are_telling, candidate_terms, relatives_of
from nonneg.naming._reader import Reader, area_under_roc
from nonneg.naming._words import folded_words
from nonneg.payload import Array
from nonneg.progress import progress_bar

MOST_TEXTS = 20_000  # texts that can be read within seconds; of more, a random sample is used
_LEAST_SCORED = 5  # held-out texts with the feature, without which a name has no score
_SHOWN = 20  # texts that a namer sees


@dataclass(frozen=True)
class NamingTask:
    """What a namer is given to name one feature.

    Attributes:
        feature: the feature's number.
        texts: texts on which it is active, strongest first.
        others: texts of the most similar features on which it is inactive: the name should not fit them.
        suggestion: the name that would be used otherwise.
        taken: the names of other features, which may not be used again.
    """

    feature: int
    texts: tuple[str, ...]
    others: tuple[str, ...]
    suggestion: str
    taken: frozenset[str]


def suggest_names(
    features: Features,
    words: int = 3,
    *,
    namer: Callable[[NamingTask], str] | None = None,
    reader: Reader | None = None,
    seed: int = 0,
) -> dict[int, Suggestion]:
    """Suggest a name for each live feature of texts.

    Half of the texts give the name: words and phrases that are frequent where the feature is active, compared with
    all texts and with the texts of its most similar features, chosen so that a `Reader` ranks the feature's texts
    first. The other half gives the score. (The `Reader` learns from the words of both halves, without the features.)
    No two names consist of the same words.

    Args:
        features: features with texts.
        words: the largest number of words in a name.
        namer: a function that names a feature instead, such as a language model. A name that is taken is asked for
            once more and then replaced by the suggestion.
        reader: ranks texts by a name; by default one that learns from the texts of the features (`reader_of`).
        seed: decides which texts are in which half.

    Returns:
        Feature to suggestion. A feature has none if no word sets its texts apart.
    """
    if "text" not in features.samples.column_names:
        raise InputError("suggest_names: the features have no texts, expected one per sample")
    if type(words) is not int or words < 1:
        raise InputError(f"suggest_names: words is {words!r}, expected a whole number, at least 1")
    order = np.random.default_rng(seed).permutation(len(features))[:MOST_TEXTS]
    halves = np.sort(order[: (len(order) + 1) // 2]), np.sort(order[(len(order) + 1) // 2 :])
    chosen, kept = ([text or "" for text in features.samples["text"].take(rows).to_pylist()] for rows in halves)
    try:
        reader = reader_of(features) if reader is None else reader
    except InputError as error:
        raise InputError(f"suggest_names: {error}") from error
    names = _Naming(reader, features, chosen, halves[0]).names(words, namer)
    points, fires = reader.texts(kept), sp.csc_array(active(features.codes[halves[1]]))
    return {feature: _scored(reader, name, points, fires[:, [feature]]) for feature, name in names.items()}


def guessed_names(features: Features) -> dict[int, str]:
    """Return the suggested names that are guesses, by feature, as far as no person has given another name.

    Example:
        >>> names = {0: Suggestion("oil", 0.9, 50), 1: Suggestion("week", 0.6, 50)}
        >>> guessed_names(Features(np.eye(2)).with_suggestions(names))
        {1: 'week'}
    """
    suggested = features.suggestions.items()
    return {feature: found.name for feature, found in suggested if found.is_guess and feature not in features.names}


def marked(name: str, is_guess: bool) -> str:
    """Return a name for people to read, with a question mark if it is a guess."""
    return f"{name}?" if is_guess else name


def reader_of(features: Features) -> Reader:
    """Return a reader that has learnt from the features' texts, or from a random sample of them if there are many."""
    rows = np.random.default_rng(0).permutation(len(features))[:MOST_TEXTS]
    return Reader([text or "" for text in features.samples["text"].take(rows).to_pylist()])


def save_suggestions(
    features: Features,
    folder: str | Path,
    *,
    namer: Callable[[NamingTask], str] | None = None,
    progress: bool = False,
) -> dict[int, Suggestion]:
    """Suggest names for the features in a folder and save them there; texts that share no words get none."""
    if "text" not in features.samples.column_names:
        return {}
    with progress_bar(progress) as bar:
        bar.add_task("naming features", total=None)
        try:
            reader = reader_of(features)
        except InputError:  # the texts share no words
            found = {}
        else:
            found = suggest_names(features, namer=namer, reader=reader)
    write_suggestions(Path(folder), codes_key(features), found)
    return found


def _scored(reader: Reader, name: str, points: Array, fires: Any) -> Suggestion:
    is_active = np.zeros(len(points), bool)
    is_active[fires.indices] = True
    count = int(is_active.sum())
    fits = reader.fits(name, points)
    if fits is None or count < _LEAST_SCORED or count > len(points) - _LEAST_SCORED:
        return Suggestion(name, None, count)
    return Suggestion(name, area_under_roc(fits[is_active], fits[~is_active]), count)


class _Naming:
    """The texts that names are chosen from, and the features on them."""

    def __init__(self, reader: Reader, features: Features, texts: Sequence[str], rows: Array) -> None:
        self.reader, self.texts = reader, texts
        self.contains = reader.contains(texts)
        self.counts = np.asarray(self.contains.sum(axis=0)).ravel()
        self.points = reader.texts(texts, self.contains)
        units = sp.csr_array(features.units[rows])
        self.codes = sp.csc_array(units)
        self.usable = reader.vocabulary.is_whole & are_telling(self.contains, units)
        self.by_strength = np.argsort(-np.abs(features.expected_activation), kind="stable")

    def names(self, words: int, namer: Callable[[NamingTask], str] | None) -> dict[int, str]:
        """Choose names, for the strongest features first; a later feature may not have the same words."""
        is_active = sp.csc_array(self.codes.astype(bool).astype(np.float32))
        relatives = relatives_of(self.codes)
        taken: set[frozenset[str]] = set()
        names: dict[int, str] = {}
        for feature in map(int, self.by_strength):
            column = self.codes[:, [feature]]
            own, weights = column.indices, np.abs(column.data)
            if not len(own):
                continue
            # Strong texts show what a feature is about; on many others it is only just active.
            weights = weights / weights.mean()
            near = np.setdiff1d(is_active[:, relatives[feature]].indices, own)
            terms, shares = candidate_terms(self.contains, self.counts, self.usable, own, weights, near)
            choice = Choice(self.points, self.reader.words, own, weights, near)
            found = best_terms(choice, terms, shares, self.reader.vocabulary.terms, words, taken)
            if not found:
                continue
            name = self.reader.vocabulary.written(found)
            if namer is not None:
                name = self._asked(namer, feature, own, near, name, set(names.values()))
                taken.add(frozenset(word for run in folded_words(name) for word in run))
            taken.add(frozenset(word for term in found for word in term.split()))
            names[feature] = name
        return names

    def _asked(
        self, namer: Callable[[NamingTask], str], feature: int, own: Array, near: Array, name: str, taken: set[str]
    ) -> str:
        strongest = own[np.argsort(-np.abs(self.codes[:, [feature]].data), kind="stable")]
        texts, others = (tuple(self.texts[row] for row in rows[:_SHOWN]) for rows in (strongest, near))
        for _ in range(2):
            given = namer(NamingTask(feature, texts, others, name, frozenset(taken)))
            if not isinstance(given, str) or not given.strip() or "\n" in given.strip():
                raise InputError(f"namer returned {given!r} for feature {feature}, expected one line of text")
            if given.strip() not in taken:
                return given.strip()
        return name
