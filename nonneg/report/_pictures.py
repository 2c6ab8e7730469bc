"""The pictures of a result page as files: what features light up for, and how they are spread."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg import metrics
from nonneg.durable import write_bytes
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.report import _figures
from nonneg.report._page import live_correlation, most_active

_FEATURES, _SAMPLES, _SIDE, _GAP = 8, 10, 48, 2


def write_pictures(folder: Path, sides: Mapping[str, Features]) -> dict[str, Path]:
    """Draw the features of each side, on the same held-out samples, with labels and images.

    Returns:
        Caption to file.
    """
    drawn: dict[str, tuple[str, bytes]] = {}
    consistency = {name: metrics.class_consistency(f.codes, f.labels) for name, f in sides.items()}
    for name, features in sides.items():
        caption = f"{name}: a row a feature, the {_FEATURES} most active; its {_SAMPLES} strongest samples"
        drawn[caption] = (f"top-{name.lower()}.png", strongest_samples(features))
    per_feature = {name: c.per_feature[c.supported_features].cpu().numpy() for name, c in consistency.items()}
    bars = _figures.consistency_bars(per_feature, {name: c.floor for name, c in consistency.items()})
    drawn["Class consistency of each feature with 10 or more active samples"] = ("consistency.svg", bars.encode())
    shares = {name: _active_share(features) for name, features in sides.items()}
    drawn["Active features of a sample"] = ("active.svg", _figures.active_shares(shares).encode())
    maps = _figures.correlation_maps({name: live_correlation(features) for name, features in sides.items()})
    drawn["Correlation of live features, those of one class side by side"] = ("correlation.svg", maps.encode())
    return {caption: _written(folder / file, content) for caption, (file, content) in drawn.items()}


def write_curves(
    path: Path, panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], xlabel: str, ylabel: str
) -> Path:
    """Lines of (x, y) points as an SVG file, a panel each group."""
    return _written(path, _figures.curves(panels, xlabel, ylabel).encode())


def strongest_samples(features: Features) -> bytes:
    """A PNG: a row a feature, its strongest samples beside each other."""
    chosen = most_active(features, _FEATURES)
    step = _SIDE + _GAP
    sheet = Image.new("RGB", (_SAMPLES * step - _GAP, max(1, len(chosen)) * step - _GAP), "white")
    for line, feature in enumerate(chosen):
        for place, row in enumerate(features.feature(feature, top=_SAMPLES).top):
            media = features.media(row)
            if media is None:
                raise InputError("the features hold no images, expected one a sample to draw")
            with Image.open(io.BytesIO(media)) as image:
                picture = image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.NEAREST)
            sheet.paste(picture, (place * step, line * step))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _active_share(features: Features) -> np.ndarray:
    codes = features.codes.toarray() if features.is_sparse else np.asarray(features.codes)
    lengths = np.linalg.norm(codes, axis=1, keepdims=True)
    share: np.ndarray = (np.abs(codes) > metrics.EPSILON * lengths).mean(1)
    return share


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)
    return path
