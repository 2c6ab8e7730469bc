"""Labels of samples: which samples have one, and labels as numbers with names.

This is the one definition of *unlabelled*: a negative number, NaN, None or an empty string.
"""

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.messages import valid_text

UNLABELLED = -1
"""The number of every unlabelled sample in what `label_numbers` returns."""

_DIGITS = 18  # every number of this many digits fits into int64


def is_labelled(values: Any) -> npt.NDArray[np.bool_]:
    """Return which samples `(samples,)` have a label: not negative, NaN, None or empty.

    Strings that are whole numbers throughout count as numbers; next to words, "-1" is a word.

    Example:
        >>> is_labelled([3, -1, 0]).tolist()
        [True, False, True]
        >>> is_labelled(["cat", "", None, "dog"]).tolist()
        [True, False, False, True]
    """
    return _parse(values)[1]


def label_numbers(
    values: Any, name: str = "labels", required: bool = True
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Number the labels from 0 in sorted order; unlabelled samples get -1.

    Args:
        values: one label per sample: whole numbers or words, in a list, an array or a column of a table.
        name: the argument or file that error messages name.
        required: whether at least one sample must have a label.

    Returns:
        The numbers `(samples,)` and the label that each number stands for.

    Raises:
        InputError: if no sample is labelled although one is required, or a label is a number with a fraction.

    Example:
        >>> label_numbers(["10", "9", "-1", "", "9"])
        (array([ 1,  0, -1, -1,  0]), ('9', '10'))
    """
    parsed, labelled = _parse(values, name)
    known = parsed[labelled]
    if required and not len(known):
        raise InputError(f"{name} holds no label, expected at least one labelled sample")
    if known.dtype.kind == "f":
        uneven = known[(known >= 2.0**63) | (known != np.round(known))]
        if len(uneven):
            raise InputError(f"{name} holds the number {uneven[0]}, expected labels that are whole numbers or words")
        known = known.astype(np.int64)
    names, known_numbers = np.unique(known, return_inverse=True)
    numbers = np.full(len(parsed), UNLABELLED, np.int64)
    numbers[labelled] = known_numbers
    return numbers, tuple(valid_text(str(name)) for name in names)


def _parse(values: Any, name: str = "labels") -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the labels as numbers if all of them are numbers, otherwise as strings, and which are labels."""
    # A list becomes an array of objects: NumPy would turn NaN next to a string into the word "nan".
    array = np.asarray(values) if hasattr(values, "__array__") else np.array(list(values), dtype=object)
    if array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}, expected one label per sample")
    if array.dtype.kind not in "iufb":
        items = [None if _is_missing(item) else item for item in array.tolist()]
        if all(item is None or _is_whole(item) for item in items):
            items = [None if item is None else int(item) for item in items]
        if not all(item is None or (isinstance(item, Real) and not isinstance(item, bool)) for item in items):
            labelled = [item is not None and not (isinstance(item, Real) and item < 0) for item in items]
            # Objects: strings of NumPy's own would all take the room of the longest.
            return np.array(list(map(str, items)), object), np.array(labelled, bool)
        array = np.array([UNLABELLED if item is None else item for item in items])
    return array, array >= 0  # False for NaN


def _is_missing(item: Any) -> bool:
    """Whether an item is None, "", NaN or the NA of pandas, which cannot be compared."""
    return not item if isinstance(item, str) else item is None or repr(item) == "<NA>" or item != item


def _is_whole(item: Any) -> bool:
    """Whether a string is a whole number as Python writes it: "007" is a word."""
    if not isinstance(item, str) or len(item) > _DIGITS or not item.removeprefix("-").isdecimal():
        return False
    return str(int(item)) == item
