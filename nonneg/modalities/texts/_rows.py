"""`TextRows`: texts with their partners, and their tokens once a tokenizer is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from nonneg.errors import InputError
from nonneg.modalities._random import uniform
from nonneg.modalities._source import unwrapped
from nonneg.modalities.texts._tokenizer import Tokenizer, Tokens

_LONGEST_CHAIN = 100  # rows
_MATES = 2**16  # the stream of random numbers that chooses partners; those of views have small numbers


@dataclass(frozen=True, eq=False)
class TextRows:
    """The samples of a source of texts: `rows[numbers]` are tokens `(numbers, longest)` int32, -1 after the last one.

    Attributes:
        texts: one text per row.
        pairs: the partner of each text, if the data has pairs.
        groups: `(rows,)` int64, the group of each text, if the data has groups; texts without a group have -1.
        scores: `(rows,)` float64, how similar each text and its partner are, as people judged, if the data says so.
        notes: remarks about the data for people.
        digest: of the texts as they were read, if a column beside them is a file, which belongs to these texts alone.
        tokenizer: makes the tokens; None until the encoder is known.
        length: the largest number of tokens of a text.
        tokens, pair_tokens: of texts and pairs, once there is a tokenizer.
    """

    texts: Sequence[str]
    pairs: Sequence[str] | None = None
    groups: npt.NDArray[np.int64] | None = None
    scores: npt.NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    digest: str = ""
    tokenizer: Tokenizer | None = None
    length: int = 0
    tokens: Tokens | None = None
    pair_tokens: Tokens | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: Any) -> npt.NDArray[np.int32]:
        return self._tokens.padded(np.arange(len(self))[rows], self.width)

    @property
    def is_uniform(self) -> bool:
        """Whether there are tokens: all texts are padded to the same length."""
        return self.tokens is not None

    @property
    def _tokens(self) -> Tokens:
        if self.tokens is None:
            raise InputError("the texts have no tokens yet, expected an encoder of texts by name, such as transformer")
        return self.tokens

    @cached_property
    def width(self) -> int:
        """The number of tokens of the longest text or partner."""
        return max(tokens.longest for tokens in (self._tokens, self.pair_tokens) if tokens is not None)

    @property
    def has_partners(self) -> bool:
        """Whether the second view of a text is of another text."""
        return self.pairs is not None or self.groups is not None

    def tokenised(self, tokenizer: Tokenizer, length: int) -> "TextRows":
        """Return the same texts with the tokens of this tokenizer."""
        if self.tokenizer is not None and (self.tokenizer.content, self.length) == (tokenizer.content, length):
            return self
        pairs = None if self.pairs is None else tokenizer.encode(self.pairs, length)
        tokens = tokenizer.encode(self.texts, length)
        return replace(self, tokenizer=tokenizer, length=length, tokens=tokens, pair_tokens=pairs)

    def all_notes(self) -> tuple[str, ...]:
        """Return remarks about the data, and how many texts are cut."""
        cut = sum(tokens.cut for tokens in (self.tokens, self.pair_tokens) if tokens is not None)
        of = len(self) * (1 if self.pair_tokens is None else 2)
        longer = f"{cut:,} of {of:,} texts are longer than {self.length:,} tokens and are cut"
        return (*self.notes, longer) if cut else self.notes

    def take(self, rows: npt.NDArray[np.int64]) -> "TextRows":
        """Return some of the texts, without tokens."""
        pairs = None if self.pairs is None else [self.pairs[row] for row in rows]
        groups = None if self.groups is None else self.groups[rows]
        scores = None if self.scores is None else self.scores[rows]
        return TextRows([self.texts[row] for row in rows], pairs, groups, scores, self.notes, self.digest)

    def views(self, rows: npt.NDArray[np.int64], seed: int, epoch: int, count: int) -> npt.NDArray[np.int32]:
        """Return each text and its partners, `(rows, count, longest)`; drawn from (seed, epoch, row, view) alone."""
        views = [self[rows]]
        for view in range(1, count):
            if self.pair_tokens is not None:
                views.append(self.pair_tokens.padded(rows, self.width))
            else:
                views.append(self[self._mates(rows, seed, epoch, view)])
        return np.stack(views, axis=1)

    @cached_property
    def related(self) -> npt.NDArray[np.int64]:
        """Return `(rows,)`, the same number for rows that are never negatives of each other.

        These are the rows of a group, and rows with the same text or partner, also through other rows. Chains of more
        than 100 rows are cut, such as those of sentences whose partner is the sentence before: there, only rows with
        the same text are related.
        """
        if self.groups is not None:
            if len(np.unique(self.groups)) == 1 and self.groups[0] >= 0:
                raise InputError("groups: all texts are in one group, which leaves no negatives; expected several")
            alone = self.groups < 0
            return np.where(alone, self.groups.max(initial=-1) + np.cumsum(alone), self.groups)
        assert self.pairs is not None
        nodes: dict[str, int] = {}
        first, second = (
            np.array([nodes.setdefault(text, len(nodes)) for text in texts], np.int64)
            for texts in (self.texts, self.pairs)
        )
        links = sp.coo_array((np.ones(len(self), bool), (first, second)), shape=(len(nodes), len(nodes)))
        number: npt.NDArray[np.int64] = connected_components(links, directed=False)[1].astype(np.int64)
        is_long = np.bincount(number[first], minlength=number.max(initial=0) + 1)[number[first]] > _LONGEST_CHAIN
        return np.where(is_long, len(nodes) + first, number[first])

    def _mates(self, rows: npt.NDArray[np.int64], seed: int, epoch: int, view: int) -> npt.NDArray[np.int64]:
        """Return another row of the same group for each row, or the row itself if it is alone."""
        order, place, first, size = self._members
        drawn = uniform(1, seed, epoch, torch.from_numpy(rows), _MATES + view).numpy()[:, 0]
        steps = 1 + np.floor(drawn * (size[rows] - 1)).astype(np.int64)
        return order[first[rows] + (place[rows] + steps) % size[rows]]

    @cached_property
    def _members(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Return the rows ordered by group; and, of each row, its place in the group, the group's start and size."""
        _, numbers, sizes = np.unique(self.related, return_inverse=True, return_counts=True)
        order = np.argsort(numbers, kind="stable")
        starts = np.cumsum(sizes) - sizes
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        return order, place, starts[numbers], sizes[numbers]


def text_rows(samples: Any, name: str) -> tuple[TextRows, npt.NDArray[np.int64]]:
    """Return the texts of a source's samples, and the rows of them that the source has."""
    samples, rows = unwrapped(samples)
    if not isinstance(samples, TextRows):
        raise InputError(f"{name} holds a {type(samples).__name__}, expected texts, as Texts.open returns them")
    return samples, rows
