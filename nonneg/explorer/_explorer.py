"""`Explorer`: the open sets of features and the answers to requests, independent of HTTP."""

import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nonneg.errors import InputError
from nonneg.explorer import _answers as answers
from nonneg.explorer import _requests as requests
from nonneg.explorer._comparison import comparison, matched, partner_of
from nonneg.explorer._families import families, family_name
from nonneg.explorer._feature_page import feature_page
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._finding import found_samples
from nonneg.explorer._map_page import map_colours, map_page
from nonneg.explorer._name_score import name_score
from nonneg.explorer._overview import figures, overview
from nonneg.explorer._sample_page import encoded, sample_page, search_result
from nonneg.search import Encoder, word_marks

if TYPE_CHECKING:
    from nonneg.evaluate import Matching

STRIP = 9


class Explorer:
    """One or two sets of features.

    Args:
        sets: the sets to show.

    Example:
        >>> import numpy as np
        >>> from nonneg import Features
        >>> explorer = Explorer([FeatureSet(Features(np.eye(3, dtype=np.float32)), "a set")])
        >>> [part.share for part in explorer.sample(0, 2).parts]
        [1.0]
    """

    def __init__(self, sets: Sequence[FeatureSet]) -> None:
        if not 1 <= len(sets) <= 2:
            raise InputError(f"{len(sets)} sets of features are given, expected one or two")
        self.sets = tuple(sets)
        self._figures = cache(figures)
        self._matching: Matching | None = None  # of the two sets, after somebody has compared them
        self._mapping = threading.Lock()  # a map takes seconds, and one is enough
        self._grouping = threading.Lock()  # takes hundreds of megabytes
        self._families = lru_cache(4)(_families)

    def prepare(self, encodes: bool = False) -> None:
        """Compute now what the first requests would otherwise wait for; load models if new samples are encoded."""
        for features in self.sets:
            features.prepare(encodes)

    def overview(self, can_write: bool = True) -> answers.Overview:
        for number in range(len(self.sets)):
            self._set(number)
        return overview(self.sets, can_write)

    def figures(self, number: int) -> answers.Figures:
        return self._figures(self._set(number))

    def table(self, number: int) -> answers.FeatureTable:
        features = self._set(number)
        rows = tuple(features.row(feature) for feature in range(len(features.active)))
        titles = {row.feature: title for row in rows if (title := row.name or row.hint)}
        # By hints, which names that people give do not change: grouping thousands of features takes seconds.
        hints = tuple((row.feature, row.hint) for row in rows if row.hint)
        with self._grouping:
            grouped = self._families(features, hints)
        named = tuple(answers.Family(name=family_name(members, titles), features=members) for members in grouped)
        return answers.FeatureTable(samples=len(features), rows=rows, families=named)

    def find(self, number: int, text: str, label: str | None = None, shown: int = 24) -> answers.FoundSamples:
        return found_samples(self._set(number), text, label, shown)

    def samples(self, number: int, rows: Sequence[int]) -> answers.Samples:
        features = self._set(number)
        for row in rows:
            self._set(number, row=row)
        return answers.Samples(samples=tuple(features.sample(row) for row in rows))

    def map(self, number: int) -> answers.MapPage:
        features = self._set(number)
        with self._mapping:
            found = features.map
        return map_page(features, found)

    def map_colours(self, number: int, feature: int) -> answers.MapColours:
        return map_colours(self._set(number, feature), feature)

    def strip(self, number: int, feature: int) -> answers.Strip:
        features = self._set(number, feature)
        strongest, spread = features.strongest(feature, STRIP), features.spread(feature, STRIP)
        return answers.Strip(feature=feature, strongest=strongest, spread=spread)

    def feature(self, number: int, feature: int) -> answers.FeaturePage:
        partner = None if self._matching is None else partner_of(self._matching, number, feature)
        return feature_page(self._set(number, feature), feature, partner)

    def sample(self, number: int, row: int, off: Sequence[int] = ()) -> answers.SamplePage:
        features = self._set(number, *off, row=row)
        return sample_page(features, row, off, features.glass_box)

    def search(self, number: int, query: requests.Query) -> answers.SearchResult:
        features = self._set(number, *(each.feature for each in query.features), *query.without, *query.require)
        for row in query.like:
            self._set(number, row=row)
        return search_result(features, query)

    def picture(self, number: int, row: int) -> bytes | None:
        return self._set(number, row=row).features.media(row)

    def rename(self, number: int, feature: int, given: requests.NewName) -> answers.NamingResult | None:
        """Name a feature; return None if its name has changed since the author saw it."""
        features = self._set(number, feature)
        if not features.names.rename(feature, given.name.strip(), given.author.strip(), given.replaces):
            return None
        return answers.NamingResult(
            caption=features.caption(feature),
            history=features.names.history(feature),
            name_score=name_score(features, feature, features.column(feature)[0]),
        )

    def encode(self, number: int, sample: bytes | str) -> answers.Encoded:
        """Encode a new image, given as the bytes of its file, or a new text."""
        features = self._set(number)
        encoder = self._encoder(features, "text" if isinstance(sample, str) else "image")
        picture = sample if isinstance(sample, bytes) else None
        return encoded(features, encoder.codes(sample).toarray()[0], picture)

    def marks(self, number: int, given: requests.MarksAsked) -> answers.Marks:
        """Say which words of a text switch a feature on."""
        features = self._set(number, given.feature)
        value, marks = word_marks(self._encoder(features, "text"), given.text, given.feature)
        words = tuple(answers.WordMark(**mark._asdict()) for mark in marks)
        return answers.Marks(feature=given.feature, value=value, words=words)

    @staticmethod
    def _encoder(features: FeatureSet, kind: answers.Kind) -> Encoder:
        if features.encoder is None or features.input_kind != kind:
            texts = "a run trained on texts, or a run of nonneg convert and its --sentence-model"
            run = texts if kind == "text" else "a run trained on images"
            raise InputError(f"{features.name} was opened without a model for {kind}s, expected {run}")
        return features.encoder

    def comparison(self) -> answers.Comparison:
        if len(self.sets) < 2:
            raise InputError("one set of features is open, expected two to compare")
        first, second = self._set(0), self._set(1)
        if self._matching is None:
            self._matching = matched(first, second)
        return comparison(self._matching, first, second)

    def _set(self, number: int, *features: int, row: int = 0) -> FeatureSet:
        """Return a set with its current names, after checking that it contains these features and this row."""
        if not 0 <= number < len(self.sets):
            raise InputError(f"set is {number}, expected 0 to {len(self.sets) - 1}")
        found = self.sets[number]
        for feature in features:
            if not 0 <= feature < len(found.active):
                raise InputError(f"feature is {feature}, expected 0 to {len(found.active) - 1}")
        if not 0 <= row < len(found):
            raise InputError(f"sample is {row}, expected 0 to {len(found) - 1}")
        found.names.reload()
        return found


def _families(features: FeatureSet, hints: tuple[tuple[int, str], ...]) -> list[tuple[int, ...]]:
    return families(features.products, np.flatnonzero(features.active), dict(hints))
