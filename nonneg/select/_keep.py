"""Keeping some of the features of `Features`, chosen by number or by a selector."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from nonneg.errors import InputError
from nonneg.evaluate import aligned
from nonneg.features import Features, check_features
from nonneg.labels import is_labelled
from nonneg.select._scores import Array
from nonneg.select._selectors import (
    Elimination,
    ExpectedActivation,
    MutualInformation,
    RandomFeatures,
    Reconstruction,
    Sepin,
    Variance,
)

# Name on the command line to a function of the number of features to keep and a seed.
SELECTORS: Mapping[str, Callable[[int, int], Any]] = {
    "expected-activation": lambda keep, seed: ExpectedActivation(keep),
    "absolute-activation": lambda keep, seed: ExpectedActivation(keep, absolute=True),
    "unrectified-activation": lambda keep, seed: ExpectedActivation(keep, rectify=False),
    "variance": lambda keep, seed: Variance(keep),
    "reconstruction": lambda keep, seed: Reconstruction(keep),
    "mutual-information": lambda keep, seed: MutualInformation(keep),
    "elimination": lambda keep, seed: Elimination(keep),
    "sepin": lambda keep, seed: Sepin(keep, random_state=seed),
    "random": lambda keep, seed: RandomFeatures(keep, random_state=seed),
}
"""Selectors by name: functions of the number of features to keep and a seed."""


def named_selector(name: str, keep: int, seed: int = 0) -> Any:
    """Return a selector by its name on the command line.

    Example:
        >>> named_selector("absolute-activation", 64)
        ExpectedActivation(absolute=True, n_features_to_select=64)
    """
    if name not in SELECTORS:
        raise InputError(f"selector is {name!r}, expected one of {', '.join(SELECTORS)}")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}, expected 0 to {2**32 - 1}")
    return SELECTORS[name](keep, seed)


def keep(features: Features, chosen: Any, views: Features | None = None) -> Features:
    """Return `Features` of the same samples with only the chosen features, renumbered from 0.

    Names of features are kept. `provenance["selected"]` says how the features were chosen (`by`), their original
    numbers (`kept`) and how many there were (`of`).

    Args:
        features: the features to choose from.
        chosen: indices in the new order, a mask, or a selector. A copy of an unfitted selector is fitted on the
            features and, if it needs them, their labels.
        views: a second view of the same samples, for an unfitted `Sepin`.

    Example:
        >>> features = Features(np.array([[3.0, 0.0, 4.0], [0.0, 1.0, 2.0]]), names={2: "owl"})
        >>> fewer = keep(features, ExpectedActivation(2))
        >>> fewer.names, fewer.provenance["selected"]["kept"]
        (mappingproxy({1: 'owl'}), [0, 2])
    """
    check_features(features)
    if hasattr(chosen, "get_support"):
        selector = chosen if hasattr(chosen, "support_") else fitted(chosen, features, views)
        if len(selector.get_support()) != features.shape[1]:
            found = f"was fitted on {len(selector.get_support())} features"
            raise InputError(f"keep: the selector {found}, expected {features.shape[1]}, the number of features")
        by, columns = repr(selector), selector.get_support(indices=True)
    else:
        by, columns = "indices", checked_indices(chosen, features.shape[1])
    selected = {"by": by, "kept": columns.tolist(), "of": features.shape[1]}
    before = features.provenance.get("selected")
    return features.with_columns(columns, {"selected": selected if before is None else {**selected, "before": before}})


def fitted(selector: Any, features: Features, views: Features | None = None) -> Any:
    """Return a copy of the selector, fitted on the features, with labels or a second view if it needs them."""
    own = clone(selector)
    if isinstance(own, Sepin):
        return own.fit(features.codes, views=None if views is None else aligned(features, views))
    if not get_tags(own).target_tags.required:
        return own.fit(features.codes)
    if features.labels is None or not (known := is_labelled(features.labels)).any():
        raise InputError(f"{type(own).__name__}: the features have no labels, expected some")
    if len(found := np.unique(features.labels[known])) < 2:
        raise InputError(f"{type(own).__name__}: all labels are {found[0]}, expected at least two classes")
    codes = features.codes if known.all() else features.codes[known]
    return own.fit(codes, features.labels[known])


def checked_indices(chosen: Any, features: int) -> Array:
    """Return the indices of features, given as such or as a mask; they must be distinct."""
    columns = np.asarray(chosen)
    if columns.dtype == bool and columns.shape == (features,):
        columns = np.flatnonzero(columns)
    if columns.ndim != 1 or columns.dtype.kind not in "iu" or not len(columns):
        raise InputError(
            f"keep: indices are {columns.dtype} of shape {columns.shape}, expected whole numbers, at least one"
        )
    outside = columns[(columns < 0) | (columns >= features)]
    if len(outside):
        raise InputError(f"keep: index {outside[0]} is not a feature, expected 0 to {features - 1}")
    if len(np.unique(columns)) < len(columns):
        raise InputError("keep: some indices are repeated, expected each feature at most once")
    return columns.astype(np.int64)
