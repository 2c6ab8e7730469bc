"""Kinds of samples, one folder each, behind one protocol.

A new modality is a folder beside `images`, imported by `nonneg.models`; people bring their own without either.
"""

from nonneg.modalities._batch import arrays_of, as_tensors, map_arrays
from nonneg.modalities._modality import Modality, register
from nonneg.modalities._random import uniform
from nonneg.modalities._source import SomeRows, Source
from nonneg.modalities._splits import UndividedError

__all__ = [
    "Modality",
    "SomeRows",
    "Source",
    "UndividedError",
    "arrays_of",
    "as_tensors",
    "map_arrays",
    "register",
    "uniform",
]
