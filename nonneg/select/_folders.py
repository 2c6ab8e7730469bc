"""`nonneg select`: select features of a folder, or compare selectors on two folders."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.durable import check_regular_file, read_errors_as_input_errors, write_atomically
from nonneg.errors import InputError
from nonneg.evaluate import open_features
from nonneg.features import check_writable
from nonneg.select._keep import checked_indices, keep, named_selector
from nonneg.select._selectors import require_count
from nonneg.select._sweep import Sweep, sweep


@dataclass(frozen=True)
class Selected:
    """The paths that were written: the selected features, and their numbers in the original."""

    features: Path
    kept: Path


def select_folder(
    folder: str,
    count: int | None = None,
    by: str = "expected-activation",
    out: Path | None = None,
    *,
    indices: Path | None = None,
    views: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Selected:
    """Select features of a folder and write them, with their original numbers in a `.npy` file beside them.

    Args:
        folder: a features folder, or a run with features beside it.
        count: number of features to keep.
        by: name of a selector.
        out: the folder to write to; `NAME-512.features` beside the original if None.
        indices: a `.npy` file of the features to keep instead, written for other features of the same model.
        views: features of a second view of the same samples, for `sepin`.
        seed: of `random` and of the samples that `sepin` draws.
        overwrite: replace features and numbers that exist there.
    """
    if (count is None) == (indices is None):
        found = "neither --keep nor --indices is" if count is None else "both --keep and --indices are"
        raise InputError(f"{found} given, expected one of them: how many features to keep, or which")
    if (views is not None) != (by == "sepin"):
        found = "is missing" if views is None else f"is {views}"
        raise InputError(f"--views {found}, expected features of a second view for --by sepin and no other selector")
    features = open_features(folder)
    if indices is None:
        require_count(count, features.shape[1], "--keep is")
        chosen = named_selector(by, count or 0, seed)
    else:
        chosen = checked_indices(_numbers(indices), features.shape[1])
    size = count if indices is None else len(chosen)
    out = _beside(Path(folder), f"-{size}.features") if out is None else out
    kept = _beside(out, ".kept.npy")
    check_writable(out, overwrite)
    if kept.exists():
        if not overwrite:
            raise InputError(f"{kept} exists already; choose another --out, or pass --overwrite to replace it")
        _numbers(kept)  # a file that no selection wrote is not replaced
    selected = keep(features, chosen, None if views is None else open_features(views))
    selected.save(out, overwrite=overwrite)
    buffer = io.BytesIO()
    np.save(buffer, np.array(selected.provenance["selected"]["kept"]), allow_pickle=False)
    write_atomically(kept, buffer.getvalue())
    return Selected(out, kept)


def sweep_folders(
    train: str,
    test: str,
    keep: Sequence[int] | None = None,
    selectors: Sequence[str] | None = None,
    out: Path | None = None,
    *,
    views: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Sweep:
    """Run `sweep` on features folders, or runs with features beside them; plot it to `out` if given."""
    if out is not None:
        from nonneg.plots import check_plot  # matplotlib is slow to load

        check_plot(out, overwrite)
    second = None if views is None else open_features(views)
    found = sweep(open_features(train), open_features(test), keep, selectors, views=second, seed=seed)
    if out is not None:
        found.plot(out)
    return found


def _beside(path: Path, ending: str) -> Path:
    """Return the path of a neighbour: the same name with another ending than `.features`."""
    path = path.resolve() if path.name in ("", "..") else path  # such as ".", which has no name
    return path.with_name(f"{path.name.removesuffix('.features')}{ending}")


def _numbers(path: Path) -> Any:
    check_regular_file(path)
    with read_errors_as_input_errors(path), path.open("rb") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{path} is not a plain NumPy array, expected feature indices") from error
