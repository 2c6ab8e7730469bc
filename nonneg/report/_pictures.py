"""The pictures of a result page as files: what features light up for, and how they are spread."""

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
from nonneg.report import _figures
from nonneg.report._page import live_correlation, most_active

_FEATURES, _SAMPLES, _SIDE, _GAP = 8, 10, 64, 2


def write_pictures(folder: Path, sides: Mapping[str, Features]) -> dict[str, Path]:
    """Draw the features of each side, on the same held-out samples, with labels and images.

    Returns:
        Caption to file.
    """
    drawn: dict[str, tuple[str, bytes]] = {}
    consistency = {name: metrics.class_consistency(f.codes, f.labels) for name, f in sides.items()}
    for name, features in sides.items():
        if strongest := _strongest(features):
            alike, chance = (_alike(labels, strongest) for labels in (features.labels, _permuted(features.labels)))
            caption = (
                f"{name}: a row a feature and its {_SAMPLES} strongest samples, features taken evenly over their"
                f" ranking by expected activation. Over the {len(strongest)} features with {_SAMPLES} samples or more,"
                f" {alike:.0%} of the {_SAMPLES} are of one class on average ({chance:.0%} by chance)"
            )
            drawn[caption] = (f"top-{name.lower()}.png", _sample_sheet(features, strongest))
    per_feature = {name: c.per_feature[c.supported_features].cpu().numpy() for name, c in consistency.items()}
    bars = _figures.consistency_bars(per_feature, {name: c.floor for name, c in consistency.items()})
    drawn["Class consistency of each feature with 10 or more active samples"] = ("consistency.svg", bars.encode())
    shares = {name: _active_share(features) for name, features in sides.items()}
    drawn["Active features of a sample"] = ("active.svg", _figures.active_shares(shares).encode())
    maps = _figures.correlation_maps({name: live_correlation(features) for name, features in sides.items()})
    drawn["Correlation of live features, those of one class side by side"] = ("correlation.svg", maps.encode())
    return {caption: _written(folder / file, content) for caption, (file, content) in drawn.items()}


def write_curves(
    path: Path,
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    xlabel: str,
    ylabel: str,
    doubling: bool = False,
) -> Path:
    """Lines of (x, y) points as an SVG file, a panel each group; with `doubling`, over x that doubles."""
    return _written(path, _figures.curves(panels, xlabel, ylabel, doubling).encode())


def _strongest(features: Features) -> list[tuple[int, ...]]:
    """Rows of the strongest samples of each feature that has so many, features most active first."""
    every = (features.feature(feature, top=_SAMPLES).top for feature in most_active(features, features.shape[1]))
    return [rows for rows in every if len(rows) == _SAMPLES]


def _alike(labels: Any, strongest: Sequence[tuple[int, ...]]) -> float:
    """The share of a feature's strongest samples that are of their commonest label, mean over features."""
    labelled = (some[some >= 0] for some in np.asarray(labels)[np.array(strongest)])
    shares = [np.unique(some, return_counts=True)[1].max() / len(some) for some in labelled if len(some)]
    return float(np.mean(shares)) if shares else float("nan")


def _permuted(labels: Any) -> Any:
    return np.random.default_rng(0).permutation(labels)


def _sample_sheet(features: Features, strongest: Sequence[tuple[int, ...]]) -> bytes:
    """A PNG: a row a feature, its strongest samples beside each other, of a few features evenly over the ranking.

    Those at the top are active on many samples, and are the least like the others.
    """
    places = np.unique(np.linspace(0, len(strongest) - 1, min(_FEATURES, len(strongest))).round().astype(int))
    step = _SIDE + _GAP
    sheet = Image.new("RGB", (_SAMPLES * step - _GAP, len(places) * step - _GAP), "white")
    for line, rows in enumerate(strongest[int(place)] for place in places):
        for column, row in enumerate(rows):
            media = features.media(row)
            if media is None:
                raise InputError("the features hold no images, expected one a sample to draw")
            with Image.open(io.BytesIO(media)) as image:
                # Pixel by pixel where each becomes a whole number of them, else smoothly.
                kind = Image.Resampling.NEAREST if _SIDE % max(image.size) == 0 else Image.Resampling.LANCZOS
                picture = image.convert("RGB").resize((_SIDE, _SIDE), kind)
            sheet.paste(picture, (column * step, line * step))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _active_share(features: Features) -> np.ndarray:
    return np.asarray(np.diff(features.units.indptr) / features.shape[1])


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path
