"""Kinds of samples, one folder each, behind one protocol."""

from nonneg.modalities._source import Source
from nonneg.modalities._splits import UndividedError

__all__ = ["Source", "UndividedError"]
