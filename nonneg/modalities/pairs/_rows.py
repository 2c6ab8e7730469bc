"""`PairRows`: the pairs of two sources; `SideRows`: the samples of one side of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from nonneg.errors import InputError
from nonneg.modalities._source import Source, is_uniform
from nonneg.modalities._splits import unique_ids

GROUP = "group"  # the key of a batch beside those of the sides
_LARGEST_GROUP = 0.5  # share of all pairs: the others would be the only negatives


@dataclass(frozen=True, eq=False)
class PairRows:
    """Pairs: `rows[numbers]` is a dictionary from each side to a batch of it, and `group` if there are groups.

    Attributes:
        sides: the names of the two sides.
        sources: the samples of each side, each of them once.
        links: `(pairs, 2)` int64, the sample of each side that a pair consists of.
        groups: `(pairs,)` int64: pairs of the same group are never negatives of each other; None if all differ.
    """

    sides: tuple[str, str]
    sources: tuple[Source, Source]
    links: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.links)

    def __getitem__(self, rows: Any) -> dict[str, Any]:
        links = self.links[rows]
        batch = {side: self.sources[i].samples[links[:, i]] for i, side in enumerate(self.sides)}
        return batch if self.groups is None else {**batch, GROUP: self.groups[rows]}

    @property
    def is_uniform(self) -> bool:
        """Whether both sides can be stored as one batch."""
        return all(is_uniform(source.samples) for source in self.sources)

    def side(self, side: str, rows: npt.NDArray[np.int64] | None = None) -> Source:
        """Return the samples of one side of these pairs, each once."""
        place = self.sides.index(side)
        links = self.links if rows is None else self.links[rows]
        used, first, inverse = np.unique(links[:, place], return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        partners = np.split(links[order, 1 - place], np.cumsum(np.bincount(inverse))[:-1])
        by_pair = np.argsort(first, kind="stable")  # in the order in which the pairs name them
        source = self.sources[place].take(used[by_pair])
        other = self.sources[1 - place]
        samples = SideRows(side, source, tuple(partners[i] for i in by_pair), other)
        return replace(source, samples=samples)


@dataclass(frozen=True, eq=False)
class SideRows:
    """The samples of one side: `rows[numbers]` is a dictionary from the side to a batch.

    Attributes:
        side: the name of the side.
        source: its samples.
        partners: for each sample, the rows of its partners in `others`; empty if samples have no partners.
        others: the samples of the other side, or None.
    """

    side: str
    source: Source
    partners: tuple[npt.NDArray[np.int64], ...] = ()
    others: Source | None = None

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, rows: Any) -> dict[str, Any]:
        return {self.side: self.source.samples[np.arange(len(self))[rows]]}


def pair_source(
    first: Source,
    second: Source,
    links: Any = None,
    groups: Any = None,
    *,
    sides: tuple[str, str] = ("image", "text"),
    name: str = "pairs",
    labels: Any = None,
    label_names: tuple[str, ...] = (),
    skipped: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Source:
    """Return a source of pairs of the samples of two sources.

    Args:
        first, second: the samples of each side.
        links: `(pairs, 2)` rows of `first` and `second` that belong together; by default row i of both.
        groups: `(pairs,)` integers: pairs of the same group are never negatives of each other. By default, and among
            pairs whose group is negative, pairs that share a sample are of one group, and so are pairs connected
            through others.
        sides: the names of the sides.
        name: where the pairs come from.
        labels: `(pairs,)` integers, -1 for unlabelled pairs.
        label_names: the names of labels 0, 1, ….
        skipped: names of the pairs that were left out.
        notes: what is worth knowing about the data, besides the notes of both sources.

    Example:
        >>> images = Source("images", np.zeros((2, 8, 8, 3), np.uint8))
        >>> words = Source("words", np.zeros((3, 5), np.float32))
        >>> pairs = pair_source(images, words, [(0, 0), (0, 1), (1, 2)])
        >>> len(pairs), pairs.samples.groups.tolist()
        (3, [0, 0, 1])
    """
    if links is None and len(first) != len(second):
        raise InputError(f"first has {len(first)} samples and second {len(second)}, expected the same number")
    links = np.stack([np.arange(len(first))] * 2, axis=1) if links is None else np.asarray(links, np.int64)
    if links.ndim != 2 or links.shape[1:] != (2,) or not len(links):
        raise InputError(f"links has shape {links.shape}, expected (pairs, 2) with at least one pair")
    if links.min() < 0 or (links.max(axis=0) >= (len(first), len(second))).any():
        raise InputError(f"links names rows up to {links.max(axis=0).tolist()}, expected rows of both sources")
    found = np.full(len(links), -1) if groups is None else np.array(groups, np.int64)
    if len(found) != len(links):
        raise InputError(f"groups: {len(found)} given, expected {len(links)}, one per pair")
    loose = found < 0
    if loose.any():
        found[loose] = found.max() + 1 + _connected(links[loose], len(first), len(second))
    if labels is not None:
        labels = np.asarray(labels, np.int64)
        if labels.shape != (len(links),):
            raise InputError(f"labels has shape {labels.shape}, expected ({len(links)},), one label per pair")
        first, second = (_labelled(s, links[:, i], labels, label_names) for i, s in enumerate((first, second)))
    rows = PairRows(sides, (first, second), links, found if len(np.unique(found)) < len(found) else None)
    ids = unique_ids(first.ids[row] for row in links[:, 0])
    every = dict.fromkeys((*notes, *first.notes, *second.notes, *_notes(found, first, second, links)))
    return Source(name, rows, ids, labels, label_names, skipped=skipped, notes=tuple(every))


def _connected(links: npt.NDArray[np.int64], first: int, second: int) -> npt.NDArray[np.int64]:
    """Number the groups of pairs that are connected through shared samples, in the order of their first pair."""
    edges = coo_array((np.ones(len(links)), (links[:, 0], first + links[:, 1])), (first + second,) * 2)
    _, parts = connected_components(edges, directed=False)
    _, start, groups = np.unique(parts[links[:, 0]], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(start))[groups].astype(np.int64)


def _labelled(
    source: Source, rows: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], names: tuple[str, ...]
) -> Source:
    """Give each sample the label of its first pair."""
    own = np.full(len(source), -1)
    own[rows[::-1]] = labels[::-1]
    return replace(source, labels=own, label_names=names)


def _notes(
    groups: npt.NDArray[np.int64], first: Source, second: Source, links: npt.NDArray[np.int64]
) -> tuple[str, ...]:
    sizes = np.unique(groups, return_counts=True)[1]
    if len(sizes) == 1 and len(groups) > 1:
        raise InputError(
            f"all {len(groups):,} pairs are connected through shared samples, so none has a negative; expected groups"
            " of a few pairs: give a column of groups"
        )
    if sizes.max() == 1:
        return ()
    few = "; few negatives remain for it" if sizes.max() > _LARGEST_GROUP * len(groups) else ""
    return (
        f"{len(links):,} pairs of {len(first):,} and {len(second):,} samples, in {len(sizes):,} groups whose pairs are"
        f" never negatives of each other; the largest has {sizes.max():,} pairs{few}",
    )
