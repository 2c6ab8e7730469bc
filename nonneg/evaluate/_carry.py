"""Carrying names and feature numbers over from an old model to a retrained one."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.evaluate._matching import Array, Matching, aligned, match_features
from nonneg.evaluate._subject import open_features
from nonneg.features import Features, check_writable


def carry_names(old: Features, new: Features, least: float = 0.5, signed: bool = True) -> Features:
    """Return the new features with the names of the old features they match.

    Names that the new features already have are kept, and no name is used twice.

    Args:
        old: features with names.
        new: features of the same samples, in any order.
        least: minimum cosine of two matching features.
        signed: False uses the absolute cosine.

    Example:
        >>> codes = np.eye(3, dtype=np.float32)
        >>> old, new = Features(codes, names={0: "cat", 1: "dog"}), Features(codes[:, [2, 0, 1]])
        >>> carry_names(old, new).names
        mappingproxy({1: 'cat', 2: 'dog'})
    """
    return _named(old, new, *_same(old, new, least, signed))


def _named(old: Features, new: Features, a: Array, b: Array) -> Features:
    carried = {int(j): old.names[int(i)] for i, j in zip(a, b, strict=True) if int(i) in old.names}
    taken = set(new.names.values())
    return new.with_names({i: name for i, name in carried.items() if i not in new.names and name not in taken})


def reordered(old: Features, new: Features, least: float = 0.5, signed: bool = True) -> Features:
    """Return the new features reordered: a feature that matches an old one gets its number, the rest fill the gaps.

    Empty features are added if an old number is above the number of new features. `model_columns` of the result says
    which column each feature was; -1 is an empty one.

    Args:
        old: the features whose numbers are used.
        new: features of the same samples, in any order.
        least: minimum cosine of two matching features.
        signed: False uses the absolute cosine.

    Example:
        >>> codes = np.eye(3, dtype=np.float32)
        >>> bool((reordered(Features(codes), Features(codes[:, [2, 0, 1]])).codes == codes).all())
        True
    """
    return _moved(new, *_same(old, new, least, signed), least)


def _moved(new: Features, a: Array, b: Array, least: float) -> Features:
    columns = np.full(max(new.shape[1], int(a.max(initial=-1)) + 1), -1)
    columns[a] = b
    rest = np.setdiff1d(np.arange(new.shape[1]), b)
    columns[np.flatnonzero(columns < 0)[: len(rest)]] = rest
    return new.with_columns(columns, {"reordered": {"least": least}})


def match_folders(
    folders: Sequence[str],
    *,
    signed: bool = True,
    least: float = 0.5,
    names: bool = False,
    reorder: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
) -> Matching:
    """Match features folders; the second one can be saved with the names or the order of the first.

    Args:
        folders: features folders, or runs with features beside them.
        signed: as for `match_features`.
        least: minimum cosine of two matching features; the table counts the features above it, too.
        names: carry names over.
        reorder: give matched features their old numbers.
        out: the folder to write the new features to.
        overwrite: replace features that exist there.
    """
    writes = names or reorder
    if len(folders) < 2:
        raise InputError(f"features folders given: {len(folders)}, expected at least two")
    if writes and len(folders) > 2:
        raise InputError(f"features folders given: {len(folders)}, expected two: the old one and the new one")
    if writes != (out is not None):
        if writes:
            raise InputError("--out is missing, expected a folder to write the new features to")
        raise InputError(f"--out is {out}, expected --carry-names or --reorder with it")
    if out is not None:
        check_writable(out, overwrite)
    _require_cosine(least)
    features = [open_features(folder) for folder in folders]
    matching = match_features(*features, signed=signed)
    matching = dataclasses.replace(matching, levels=tuple(sorted({*matching.levels, least})))
    if out is not None:
        old, new = features
        a = np.flatnonzero((matching.cosine[0] >= least) & (matching.partners[0] >= 0))
        b = matching.partners[0, a]
        new = _named(old, new, a, b) if names else new
        (_moved(new, a, b, least) if reorder else new).save(out, overwrite=overwrite)
    return matching


def _same(old: Features, new: Features, least: float, signed: bool) -> tuple[Array, Array]:
    """Return the matching features of `old` and of `new`."""
    _require_cosine(least)
    found = metrics.match(old.codes, aligned(old, new), signed)
    same = found.cosine >= least
    return found.a[same].numpy(), found.b[same].numpy()


def _require_cosine(least: float) -> None:
    if not 0 <= least <= 1:
        raise InputError(f"least is {least}, expected a cosine from 0 to 1")
