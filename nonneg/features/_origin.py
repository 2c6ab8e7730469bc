"""What the provenance of features says about the model that made them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nonneg.errors import InputError
from nonneg.payload import Array


def model_columns(provenance: Mapping[str, Any], features: int) -> Array | None:
    """Return `(features,)` columns of the model's output, -1 for an empty feature; None means all in order."""
    columns = provenance.get("columns")
    if columns is None:
        return None
    is_list = isinstance(columns, list) and len(columns) == features
    if not is_list or not all(type(column) is int and -1 <= column < 2**31 for column in columns):
        raise InputError(f"provenance has invalid columns, expected {features} numbers, at least -1")
    return np.array(columns, np.int64)


def agreement(provenance: Mapping[str, Any], features: int) -> Array | None:
    """Return `(features,)` AUCs of the agreement between samples and their partners, NaN if unknown, or None."""
    found = provenance.get("agreement")
    if not isinstance(found, dict) or not isinstance(found.get("auc"), list):
        return None
    if not all(value is None or (type(value) in (int, float) and 0 <= value <= 1) for value in found["auc"]):
        return None
    values = np.array([np.nan if value is None else value for value in found["auc"]] + [np.nan], np.float64)
    chosen = model_columns(provenance, features)
    columns = np.arange(features) if chosen is None else chosen
    return values[columns] if columns.max(initial=0) < len(values) - 1 else None
