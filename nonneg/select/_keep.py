"""Keeping some of the features of `Features`, by number or by what a selector says."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from nonneg.errors import InputError
from nonneg.evaluate import aligned
from nonneg.features import Features
from nonneg.select._scores import Array
from nonneg.select._selectors import Elimination, ExpectedActivation, MutualInformation, RandomFeatures, Sepin, Variance

# What the command line calls them: how many to keep and a seed, to a selector.
SELECTORS: Mapping[str, Callable[[int, int], Any]] = {
    "expected-activation": lambda keep, seed: ExpectedActivation(keep),
    "absolute-activation": lambda keep, seed: ExpectedActivation(keep, absolute=True),
    "unrectified-activation": lambda keep, seed: ExpectedActivation(keep, rectify=False),
    "variance": lambda keep, seed: Variance(keep),
    "mutual-information": lambda keep, seed: MutualInformation(keep),
    "elimination": lambda keep, seed: Elimination(keep),
    "sepin": lambda keep, seed: Sepin(keep, random_state=seed),
    "random": lambda keep, seed: RandomFeatures(keep, random_state=seed),
}


def named_selector(name: str, keep: int, seed: int = 0) -> Any:
    """A selector by its name on the command line.

    Example:
        >>> named_selector("absolute-activation", 64)
        ExpectedActivation(absolute=True, n_features_to_select=64)
    """
    if name not in SELECTORS:
        raise InputError(f"selector {name!r} is not known, expected one of {', '.join(SELECTORS)}")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}, expected 0 to {2**32 - 1}")
    return SELECTORS[name](keep, seed)


def keep(features: Features, chosen: Any, views: Features | None = None) -> Features:
    """Smaller `Features`: the same samples, with the chosen features renumbered from 0.

    Names of kept features move along; provenance tells under "selected" by what they were chosen, their numbers
    before (`kept`) and how many there were (`of`).

    Args:
        features: where to choose from.
        chosen: indices, in the order they are to have; a mask; or a selector. A selector that is not fitted is
            fitted on the features and, if it wants them, their labels; it stays as it is.
        views: a second view of the same samples, for a `Sepin` that is not fitted.

    Example:
        >>> features = Features(np.array([[3.0, 0.0, 4.0], [0.0, 1.0, 2.0]]), names={2: "owl"})
        >>> fewer = keep(features, ExpectedActivation(2))
        >>> fewer.names, fewer.provenance["selected"]["kept"]
        (mappingproxy({1: 'owl'}), [0, 2])
    """
    if hasattr(chosen, "get_support"):
        selector = chosen if hasattr(chosen, "support_") else fitted(chosen, features, views)
        if len(selector.get_support()) != features.shape[1]:
            found = f"was fitted on {len(selector.get_support())} features"
            raise InputError(f"keep: the selector {found}, expected {features.shape[1]}, as many as there are")
        by, columns = repr(selector), selector.get_support(indices=True)
    else:
        by, columns = "indices", _checked(chosen, features.shape[1])
    told = {"by": by, "kept": columns.tolist(), "of": features.shape[1]}
    before = features.provenance.get("selected")
    return features.with_columns(columns, {"selected": told if before is None else {**told, "before": before}})


def fitted(selector: Any, features: Features, views: Features | None = None) -> Any:
    """A copy of the selector, fitted on these features: with labels or a second view, where it wants them."""
    own = clone(selector)
    if isinstance(own, Sepin):
        if views is None:
            raise InputError("Sepin: a second view of the same samples is missing, expected its features as views")
        return own.fit(features.codes, views=aligned(features, views))
    if not get_tags(own).target_tags.required:
        return own.fit(features.codes)
    if features.labels is None or not (features.labels >= 0).any():
        raise InputError(f"{type(own).__name__}: the features have no labels, expected some to choose by")
    told = features.labels >= 0
    if len(found := np.unique(features.labels[told])) < 2:
        raise InputError(f"{type(own).__name__}: all labels are {found[0]}, expected two classes or more to choose by")
    codes = features.codes if told.all() else features.codes[told]
    return own.fit(codes, features.labels[told])


def _checked(chosen: Any, features: int) -> Array:
    """Indices of features, all different."""
    columns = np.asarray(chosen)
    if columns.dtype == bool and columns.shape == (features,):
        columns = np.flatnonzero(columns)
    if columns.ndim != 1 or columns.dtype.kind not in "iu" or not len(columns):
        raise InputError(
            f"keep: indices are {columns.dtype} of shape {columns.shape}, expected whole numbers, one or more"
        )
    outside = columns[(columns < 0) | (columns >= features)]
    if len(outside):
        raise InputError(f"keep: index {outside[0]} is not a feature, expected 0 to {features - 1}")
    if len(np.unique(columns)) < len(columns):
        raise InputError("keep: some indices are the same, expected each feature once")
    return columns.astype(np.int64)
