"""`Features` as tables of pandas, and tables of pandas or polars as `Features`."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.labels import UNLABELLED, is_labelled, label_numbers
from nonneg.tables import arrow_vectors, as_column

if TYPE_CHECKING:
    from nonneg.features._features import Features

_ID, _LABEL, _TEXT = "id", "label", "text"


def to_frame(features: "Features") -> Any:
    """Return one row per sample, indexed by its id: label and text, then one column per feature."""
    pandas = _pandas("Features.to_frame")
    ids = features.samples.column("id").to_pylist() if "id" in features.samples.column_names else range(len(features))
    index = pandas.Index(ids, name=_ID)
    about: dict[str, Any] = {}
    if features.labels is not None and features.label_names:
        about[_LABEL] = pandas.Categorical.from_codes(features.labels, categories=list(features.label_names))
    elif features.labels is not None:
        about[_LABEL] = pandas.arrays.IntegerArray(np.array(features.labels), features.labels == UNLABELLED)
    if "text" in features.samples.column_names:
        about[_TEXT] = features.samples.column("text").to_pylist()
    codes = frame_of(features.codes, _titles(features), index)
    return pandas.concat([pandas.DataFrame(about, index=index), codes], axis=1) if about else codes


def frame_of(codes: Any, titles: Sequence[str], index: Any = None) -> Any:
    """Return codes as a DataFrame, with sparse columns if they are a SciPy matrix."""
    pandas = _pandas("a DataFrame")
    if sp.issparse(codes):
        return pandas.DataFrame.sparse.from_spmatrix(codes, index=index, columns=titles)
    return pandas.DataFrame(codes, index=index, columns=titles)


def parts_of_frame(frame: Any, codes: str | None) -> Mapping[str, Any]:
    """Return the arguments of `Features` that a table holds."""
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if not hasattr(frame, "columns") or not hasattr(frame, "iloc"):
        raise InputError(f"frame is a {type(frame).__name__}, expected a DataFrame of pandas or polars")
    parts: dict[str, Any] = _labels(frame[_LABEL]) if _LABEL in frame else {}
    if _TEXT in frame:
        parts["texts"] = [text if isinstance(text, str) else None for text in frame[_TEXT]]
    if _ID in frame or frame.index.name == _ID or frame.index.dtype.kind not in "iu":
        parts["ids"] = [str(each) for each in frame.get(_ID, frame.index)]
    if codes is not None:
        if codes not in frame:
            raise InputError(f"codes is {codes!r}, expected a column of frame: {', '.join(map(str, frame.columns))}")
        return {**parts, "codes": arrow_vectors(as_column(frame[codes]), codes)}
    titles = [title for title in frame.columns if title not in (_ID, _LABEL, _TEXT)]
    return {**parts, "codes": _codes(frame[titles]), "names": _names(titles)}


def _titles(features: "Features") -> list[str]:
    """Return a different title for each feature: its name, followed by its number where the name is not enough."""
    names = [features.names.get(feature, "") for feature in range(features.shape[1])]
    taken = {_ID, _LABEL, _TEXT, "", *(name for name in names if names.count(name) > 1 or _number(name) is not None)}
    return [f"{name or 'feature'} {i}" if name in taken else name for i, name in enumerate(names)]


def _names(titles: Sequence[Any]) -> dict[int, str]:
    """Return the names that titles contain; a title with the column's number is read as `_titles` writes it."""
    names = {}
    for i, title in enumerate(map(str, titles)):
        name = title.removesuffix(f" {i}") if _number(title) == i else title
        if name != "feature" and not title.isdecimal():
            names[i] = name
    return names


def _number(title: str) -> int | None:
    found = re.search(r" (\d{1,9})$", title)
    return int(found[1]) if found else None


def _labels(column: Any) -> dict[str, Any]:
    if hasattr(column.dtype, "categories"):
        return {"labels": column.cat.codes.to_numpy(), "label_names": tuple(map(str, column.cat.categories))}
    values = column.to_numpy(object)
    if not is_labelled(values).any():
        return {"labels": np.full(len(values), UNLABELLED)}
    if column.dtype.kind in "iu":
        return {"labels": column.fillna(UNLABELLED).to_numpy(np.int64)}
    numbers, names = label_numbers(values, _LABEL)
    return {"labels": numbers, "label_names": names}


def _codes(frame: Any) -> Any:
    kinds = [getattr(kind, "subtype", kind) for kind in frame.dtypes]
    for title, kind in zip(frame.columns, kinds, strict=True):
        if kind.kind not in "fiu":
            raise InputError(f"column {title!r} holds {kind}, expected numbers, or codes= to name a column of vectors")
    dtype = np.float64 if any(kind.itemsize > 4 and kind.kind == "f" for kind in kinds) else np.float32
    if len(kinds) and all(hasattr(kind, "subtype") for kind in frame.dtypes):
        return sp.csr_array(frame.sparse.to_coo()).astype(dtype)
    return frame.to_numpy(dtype)


def _pandas(needed_for: str) -> Any:
    return import_extra("pandas", needed_for, extra="frames")
