"""Features with some of their columns, or all of them in another order."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.features import Features


def with_columns(features: Features, columns: npt.ArrayLike, provenance: Mapping[str, Any]) -> Features:
    """The same samples with these features, in this order; names move along.

    Args:
        features: where they come from.
        columns: `(features,)` indices, each at most once; -1 is a feature that is zero everywhere.
        provenance: what to add to that of `features`.

    Example:
        >>> features = Features(np.eye(3, dtype=np.float32), names={2: "owl"})
        >>> fewer = with_columns(features, [2, 0], {"kept": 2})
        >>> fewer.shape, fewer.names, fewer.provenance
        ((3, 2), mappingproxy({0: 'owl'}), {'kept': 2})
    """
    chosen = np.asarray(columns)
    # One chunk of Arrow is taken as it is; several would go through Python, value by value.
    given = {name: features.samples[name].combine_chunks() for name in features.samples.column_names}
    return Features(
        _columns(features.codes, chosen),
        ids=given.get("id"),
        labels=features.labels,
        label_names=features.label_names,
        media=given.get("media"),
        texts=given.get("text"),
        names={i: features.names[int(column)] for i, column in enumerate(chosen) if int(column) in features.names},
        provenance={**features.provenance, **provenance},
    )


def _columns(codes: Any, chosen: npt.NDArray[Any]) -> Any:
    if (chosen < 0).any():
        # An empty column at the end, which -1 then names.
        empty = np.zeros((codes.shape[0], 1), codes.dtype)
        codes = sp.hstack((codes, sp.csr_array(empty)), "csr") if sp.issparse(codes) else np.hstack((codes, empty))
        chosen = np.where(chosen < 0, codes.shape[1] - 1, chosen)
    return codes[:, chosen]
