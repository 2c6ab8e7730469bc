"""Checks of everything that `Features` is given."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nonneg.codes import canonical
from nonneg.errors import InputError
from nonneg.labels import UNLABELLED, is_labelled, label_numbers
from nonneg.messages import counted, one_line, valid_text
from nonneg.payload import Array

MOST_LABELS = 2**31  # an index stores labels in 32 bits


def checked_codes(codes: Any) -> Any:
    """Return a read-only array or CSR matrix of finite floats, copied only if necessary."""
    sparse = sp.issparse(codes)
    codes = codes if sparse else np.asarray(codes).view()
    kinds = ("float32", "float64") if sparse else ("float16", "float32", "float64")
    if codes.ndim != 2 or 0 in codes.shape:
        raise InputError(f"codes have shape {codes.shape}, expected (samples, features), neither of them 0")
    if codes.dtype.name not in kinds:
        raise InputError(f"codes have dtype {codes.dtype}, expected {', '.join(kinds[:-1])} or {kinds[-1]}")
    if not codes.dtype.isnative:
        codes = codes.astype(codes.dtype.newbyteorder("="))
    if sparse:
        codes = _canonical(sp.csr_array(codes))
    is_bad = ~np.isfinite(codes.data if sparse else codes)
    if is_bad.any():
        rows = np.unique(codes.tocoo().row[is_bad] if sparse else np.nonzero(is_bad)[0])
        examples = ", ".join(map(str, rows[:3])) + ", …" * (len(rows) > 3)
        found = f"NaN or infinite values in {counted(len(rows), 'row')} ({examples})"
        raise InputError(f"codes hold {found}, expected finite ones")
    freeze(*((codes.data, codes.indices, codes.indptr) if sparse else (codes,)))
    return codes


def _canonical(codes: Any) -> Any:
    """Return a matrix with sorted indices within bounds, no duplicates and no stored zeros."""
    try:
        codes.check_format(full_check=True)  # SciPy would read outside its arrays later
    except ValueError as error:
        raise InputError(f"codes are not a valid sparse matrix: {one_line(error)}") from error
    codes = canonical(codes, zeros=False)
    # Views can be made read-only without changing the caller's arrays.
    parts = (codes.data.view(), codes.indices.view(), codes.indptr.view())
    own = sp.csr_array(parts, shape=codes.shape, copy=False)
    own.has_canonical_format = True
    return own


def freeze(*arrays: Array) -> None:
    """Make these arrays read-only."""
    for array in arrays:
        array.flags.writeable = False


def checked_label_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, which must be strings, all different; characters that are not valid become escapes."""
    given = tuple(names)
    for name in given:
        if not isinstance(name, str):
            raise InputError(f"label_names: {name!r} is a {type(name).__name__}, expected a string")
    checked = tuple(map(valid_text, given))
    if len(set(checked)) < len(checked):
        raise InputError("label_names: some are the same, expected a different name for each label")
    return checked


def checked_labels(given: Any, samples: int, names: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """Return the labels as integers `(samples,)`, -1 for unlabelled samples, and the names of labels 0, 1, ….

    Labels that are not integers are numbered in sorted order, unless there are names of numbers already.
    """
    labels = np.asarray(given)
    if labels.shape == (samples,) and labels.dtype.kind not in "iu" and not names:
        is_any = is_labelled(given).any()
        labels, names = label_numbers(given) if is_any else (np.full(samples, UNLABELLED), ())
    if labels.shape != (samples,) or labels.dtype.kind not in "iu":
        expected = f"expected {samples} integers{'' if names else ' or words'}"
        raise InputError(f"labels are {labels.dtype} of shape {labels.shape}, {expected}")
    numbers = labels.astype(np.int64)
    numbers[~is_labelled(labels)] = UNLABELLED
    most = len(names) or MOST_LABELS
    if numbers.min() < UNLABELLED or numbers.max() >= most:
        raise InputError(f"labels lie between {labels.min()} and {labels.max()}, expected -1 to {most - 1}")
    freeze(numbers)
    return numbers, names


def sample_column(name: str, values: Sequence[Any] | None, kind: pa.DataType, samples: int) -> pa.ChunkedArray | None:
    """Return an Arrow column with one value per sample."""
    if values is None:
        return None
    if isinstance(values, str) or len(values) != samples:
        found = "a string" if isinstance(values, str) else len(values)
        raise InputError(f"{name}: {found} given, expected {samples}, one per sample")
    try:
        if isinstance(values, pa.ChunkedArray):
            column = values.cast(kind)
        else:
            column = pa.chunked_array([pa.array(values, kind)])
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: {error.object[:100]!r} is not valid Unicode, expected text") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"{name}: expected a {kind} for each sample ({one_line(error)})") from error
    if name == "ids" and column.null_count:
        raise InputError("ids: some are missing, expected one for each sample")
    return column


def plain_json(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy that equals what will be read back from JSON; characters that are not valid become "?"."""
    try:
        return dict(json.loads(json.dumps(dict(provenance), ensure_ascii=False).encode("utf-8", "replace")))
    except (TypeError, ValueError) as error:
        raise InputError(f"provenance cannot be written as JSON: {one_line(error)}") from error
