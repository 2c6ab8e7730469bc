"""What `Features` accepts: every part checked by name before it is taken."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from nonneg.errors import InputError

Array = npt.NDArray[Any]


def checked_codes(codes: Any) -> Any:
    """A read-only array or CSR matrix of finite native floats; not copied where it need not be."""
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
    if not np.isfinite(codes.data if sparse else codes).all():
        raise InputError("codes hold NaN or infinite values, expected finite ones")
    freeze(*((codes.data, codes.indices, codes.indptr) if sparse else (codes,)))
    return codes


def _canonical(codes: Any) -> Any:
    """Indices in bounds and in order, no entry twice, no stored zeros."""
    try:
        codes.check_format(full_check=True)  # SciPy takes any index at first and reads outside its arrays later
    except ValueError as error:
        raise InputError(f"codes are not a valid sparse matrix: {error}") from error
    if not codes.has_canonical_format or not codes.data.all():
        codes = codes.copy()
        codes.sum_duplicates()
        codes.eliminate_zeros()
    # Views of our own: read-only here, whatever the caller does with theirs.
    parts = (codes.data.view(), codes.indices.view(), codes.indptr.view())
    own = sp.csr_array(parts, shape=codes.shape, copy=False)
    own.has_canonical_format = True
    return own


def freeze(*arrays: Array) -> None:
    """Make these arrays read-only."""
    for array in arrays:
        array.flags.writeable = False


def checked_label_names(names: Iterable[str]) -> tuple[str, ...]:
    """Strings, all different."""
    checked = tuple(names)
    for name in checked:
        if not isinstance(name, str):
            raise InputError(f"label_names: {name!r} is a {type(name).__name__}, expected a string")
    if len(set(checked)) < len(checked):
        raise InputError("label_names: some are the same, expected a different name for each label")
    return checked


def checked_labels(labels: Array, samples: int, names: tuple[str, ...]) -> Array:
    """One integer a sample, -1 or a label that has a name; a copy."""
    if labels.shape != (samples,) or labels.dtype.kind not in "iu":
        raise InputError(f"labels are {labels.dtype} of shape {labels.shape}, expected {samples} integers")
    labels = labels.astype(np.int64)
    if labels.min() < -1 or (names and labels.max() >= len(names)):
        bound = f"-1 to {len(names) - 1}" if names else "-1 or more"
        raise InputError(f"labels lie between {labels.min()} and {labels.max()}, expected {bound}")
    freeze(labels)
    return labels


def sample_column(name: str, values: Sequence[Any] | None, kind: pa.DataType, samples: int) -> pa.ChunkedArray | None:
    """An Arrow column with a value for each sample."""
    if values is None:
        return None
    if len(values) != samples:
        raise InputError(f"{name}: {len(values)} given, expected {samples}, one a sample")
    try:
        if isinstance(values, pa.ChunkedArray):
            column = values.cast(kind)
        else:
            column = pa.chunked_array([pa.array(values, kind)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise InputError(f"{name}: expected a {kind} for each sample ({error})") from error
    if name == "ids" and column.null_count:
        raise InputError("ids: some are missing, expected one for each sample")
    return column


def plain_json(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON makes of it: a copy that will be read back as it was written."""
    try:
        return dict(json.loads(json.dumps(dict(provenance))))
    except (TypeError, ValueError) as error:
        raise InputError(f"provenance cannot be written as JSON: {error}") from error
