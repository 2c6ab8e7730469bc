"""Kinds of samples, one folder each, behind one protocol.

A new modality of the package is a folder beside `images` and one line in `_modality.py`; modalities from outside the
package need neither.
"""

from nonneg.modalities._modality import Modality, register
from nonneg.modalities._random import uniform
from nonneg.modalities._source import (
    ChangedRows,
    Shared,
    SomeRows,
    Source,
    arrays_of,
    as_tensors,
    encoded_whole,
    is_uniform,
    map_arrays,
    unwrapped,
)
from nonneg.modalities._splits import UndividedError

__all__ = [
    "ChangedRows",
    "Modality",
    "Shared",
    "SomeRows",
    "Source",
    "UndividedError",
    "arrays_of",
    "as_tensors",
    "encoded_whole",
    "is_uniform",
    "map_arrays",
    "register",
    "uniform",
    "unwrapped",
]
