"""The figures of a results page as files: strongest samples, consistency, activity and correlation."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nonneg import metrics
from nonneg.durable import write_atomically
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.labels import is_labelled
from nonneg.report import _figures
from nonneg.report._page import live_correlation

_FEATURES, _SAMPLES, _SIDE, _GAP = 8, 10, 64, 2


def write_pictures(folder: Path, sides: Mapping[str, Features]) -> dict[str, Path]:
    """Draw figures of the features of each model on the same held-out samples, which need labels and images.

    Returns:
        Caption to file.
    """
    drawn: dict[str, tuple[str, bytes]] = {}
    consistency = {name: metrics.class_consistency(f.codes, f.labels) for name, f in sides.items()}
    for name, features in sides.items():
        if strongest := _strongest(features):
            shuffled = np.random.default_rng(0).permutation(np.asarray(features.labels))
            share, chance = (_top_consistency(labels, strongest) for labels in (features.labels, shuffled))
            caption = (
                f"{name}: the {_SAMPLES} strongest samples of features evenly spaced over the ranking by expected"
                f" activation, one row per feature. Over the {len(strongest)} features with at least {_SAMPLES} active"
                f" samples, {share:.0%} of the {_SAMPLES} belong to one class on average ({chance:.0%} by chance)"
            )
            drawn[caption] = (f"top-{name.lower()}.png", _sample_sheet(features, strongest))
    per_feature = {name: c.per_feature[c.supported_features].cpu().numpy() for name, c in consistency.items()}
    bars = _figures.consistency_bars(per_feature, {name: c.floor for name, c in consistency.items()})
    drawn["Class consistency of each feature with at least 10 active samples"] = ("consistency.svg", bars.encode())
    shares = {name: _active_share(features) for name, features in sides.items()}
    drawn["Share of active features per sample"] = ("active.svg", _figures.active_shares(shares).encode())
    maps = _figures.correlation_maps({name: live_correlation(features) for name, features in sides.items()})
    drawn["Correlation of live features, ordered by class"] = ("correlation.svg", maps.encode())
    return {caption: _write(folder / file, content) for caption, (file, content) in drawn.items()}


def write_curves(
    path: Path,
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    xlabel: str,
    ylabel: str,
    doubling: bool = False,
) -> Path:
    """Write lines through (x, y) points as an SVG file, one panel per group; `doubling` makes x logarithmic."""
    return _write(path, _figures.curves(panels, xlabel, ylabel, doubling).encode())


def _strongest(features: Features) -> list[tuple[int, ...]]:
    """Return the rows of the strongest samples of each feature with enough active ones, most active feature first."""
    candidates = (features.feature(feature, top=_SAMPLES).top for feature in features.ranked())
    return [rows for rows in candidates if len(rows) == _SAMPLES]


def _top_consistency(labels: Any, strongest: Sequence[tuple[int, ...]]) -> float:
    """Return the share of the most common label among the strongest samples, averaged over features."""
    labelled = (some[is_labelled(some)] for some in np.asarray(labels)[np.array(strongest)])
    shares = [np.unique(some, return_counts=True)[1].max() / len(some) for some in labelled if len(some)]
    return float(np.mean(shares)) if shares else float("nan")


def _sample_sheet(features: Features, strongest: Sequence[tuple[int, ...]]) -> bytes:
    """Return a PNG with one row of strongest samples per feature, for features evenly spaced over the ranking.

    The features at the top of the ranking are active on many samples and are not representative.
    """
    places = np.unique(np.linspace(0, len(strongest) - 1, min(_FEATURES, len(strongest))).round().astype(int))
    step = _SIDE + _GAP
    sheet = Image.new("RGB", (_SAMPLES * step - _GAP, len(places) * step - _GAP), "white")
    for line, rows in enumerate(strongest[int(place)] for place in places):
        for column, row in enumerate(rows):
            media = features.media(row)
            if media is None:
                raise InputError("the features contain no images, expected one image per sample")
            with Image.open(io.BytesIO(media)) as image:
                # Without smoothing if the size is a whole multiple of the image's.
                kind = Image.Resampling.NEAREST if _SIDE % max(image.size) == 0 else Image.Resampling.LANCZOS
                picture = image.convert("RGB").resize((_SIDE, _SIDE), kind)
            sheet.paste(picture, (column * step, line * step))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _active_share(features: Features) -> np.ndarray:
    return np.asarray(np.diff(features.units.indptr) / features.shape[1])


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path
