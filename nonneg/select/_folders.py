"""`nonneg select`: features in a folder to fewer of them in another, and the sweep of two folders."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.durable import read_errors_as_input_errors, write_atomically
from nonneg.errors import InputError
from nonneg.evaluate import open_features
from nonneg.features import is_features
from nonneg.select._keep import keep, named_selector
from nonneg.select._sweep import Sweep, sweep


@dataclass(frozen=True)
class Selected:
    """What was written: the smaller features, and the numbers that their features had before."""

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
    """Keep some of the features in a folder; write them, and their numbers as a plain `.npy` file beside them.

    Args:
        folder: a features folder, or a run with features beside it.
        count: how many to keep.
        by: a selector's name.
        out: the folder for what is kept; `NAME-512.features` beside the other if left out.
        indices: keep those that this `.npy` file names instead, as written for other features of the same model.
        views: features of a second view of the same samples, for `sepin`.
        seed: of `random` and of the samples that `sepin` draws.
        overwrite: replace earlier features and numbers there.
    """
    if (count is None) == (indices is None):
        found = "neither --keep nor --indices" if count is None else "--keep and --indices"
        raise InputError(f"{found} given, expected one of them: how many features to keep, or which")
    if (views is not None) != (by == "sepin"):
        found = "is missing" if views is None else f"is {views}"
        raise InputError(f"--views {found}, expected features of a second view with --by sepin, and only there")
    features = open_features(folder)
    chosen: Any = _numbers(indices) if indices is not None else named_selector(by, count or 0, seed)
    name = Path(folder).name.removesuffix(".features")
    size = len(chosen) if indices is not None else count
    out = Path(folder).with_name(f"{name}-{size}.features") if out is None else out
    kept = out.with_name(f"{out.name.removesuffix('.features')}.kept.npy")
    for path, is_ours in ((out, is_features(out)), (kept, kept.is_file())):
        if path.exists() and not (overwrite and is_ours):
            raise InputError(f"{path} exists already; choose another --out, or --overwrite to replace features")
    fewer = keep(features, chosen, None if views is None else open_features(views))
    fewer.save(out, overwrite=overwrite)
    buffer = io.BytesIO()
    np.save(buffer, np.array(fewer.provenance["selected"]["kept"]), allow_pickle=False)
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
    """`sweep` of features folders, or of runs with features beside them; drawn, if `out` names a picture."""
    if out is not None:
        from nonneg.select._plot import require_picture  # matplotlib is slow to load

        require_picture(out)
        if out.exists() and not (overwrite and out.is_file()):
            raise InputError(f"{out} exists already; choose another --out, or --overwrite to replace a picture")
    seen = None if views is None else open_features(views)
    found = sweep(open_features(train), open_features(test), keep, selectors, views=seen, seed=seed)
    if out is not None:
        found.plot(out)
    return found


def _numbers(path: Path) -> Any:
    try:
        with read_errors_as_input_errors(path):
            return np.load(path, allow_pickle=False)
    except InputError:
        raise
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is not a plain NumPy array, expected indices of features") from error
