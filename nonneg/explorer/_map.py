"""Positions of samples on a plane, where similar samples are close: computed once and saved with the features."""

import importlib.util
from typing import Any

import numpy as np

from nonneg.codes import unit_rows
from nonneg.features import Features, SampleMap
from nonneg.payload import Array

_AXES = 50  # dimensions that the codes are reduced to first
_LANDMARKS = 2_500  # samples placed by t-SNE, within seconds; the others go to their nearest landmarks
_NEAREST, _SHARPNESS = 3, 30.0
_BLOCK = 8_192


def sample_map(features: Features) -> SampleMap:
    """Return a map of the samples: UMAP if it is installed, otherwise t-SNE of up to 2,500 landmarks.

    Example:
        >>> found = sample_map(Features(np.eye(40, dtype=np.float32)))
        >>> found.positions.shape, float(found.positions.min()), float(found.positions.max())
        ((40, 2), 0.0, 1.0)
    """
    points = _reduced(features)
    if len(points) < 8:
        angle = np.arange(len(points)) * 2 * np.pi / max(len(points), 1)
        return SampleMap("circle", _scaled(np.stack((np.cos(angle), np.sin(angle)), 1)))
    if importlib.util.find_spec("umap") is not None:
        from umap import UMAP

        return SampleMap("UMAP", _scaled(np.asarray(UMAP(metric="cosine", random_state=0).fit_transform(points))))
    generator = np.random.default_rng(0)
    chosen = np.sort(generator.permutation(len(points))[:_LANDMARKS])
    placed = _t_sne(points[chosen])
    if len(chosen) == len(points):
        return SampleMap("t-SNE", _scaled(placed))
    return SampleMap(f"t-SNE of {len(chosen):,} landmarks", _scaled(_interpolated(points, chosen, placed, generator)))


def _reduced(features: Features) -> Array:
    """Unit codes on their leading singular vectors, scaled to length 1."""
    from sklearn.utils.extmath import randomized_svd

    units = features.units.astype(np.float32)
    some = units if len(features) <= 20_000 else units[np.random.default_rng(0).permutation(len(features))[:20_000]]
    _, _, axes = randomized_svd(some, min(_AXES, *some.shape), random_state=0)
    return np.asarray(unit_rows(np.asarray(units @ axes.T)))


def _t_sne(points: Array) -> Array:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(points) - 1) / 3)
    centred = points[:, :2] - points[:, :2].mean(axis=0)
    # With all samples in one place, scikit-learn's own start would be 0 / 0; the noise keeps samples apart.
    start = np.random.default_rng(0).normal(0, 1e-5, (len(points), 2))
    start[:, : centred.shape[1]] += 1e-4 * centred / max(float(centred.std()), 1e-9)
    if np.ptp(points, axis=0).max() < 1e-6:
        return start
    # On unit rows, Euclidean neighbours are those by cosine, and scikit-learn finds them faster.
    found = TSNE(2, perplexity=perplexity, init=start.astype(np.float32), random_state=0).fit_transform(points)
    return np.asarray(found)


def _interpolated(points: Array, chosen: Array, placed: Array, generator: Any) -> Array:
    """Place each sample between its three nearest landmarks, with some noise so that samples do not coincide."""
    found = np.empty((len(points), 2), np.float32)
    landmarks = points[chosen].T
    spread = np.median(np.abs(placed - np.median(placed, axis=0))) / 25
    for start in range(0, len(points), _BLOCK):
        cosines = points[start : start + _BLOCK] @ landmarks
        nearest = np.argpartition(-cosines, _NEAREST, axis=1)[:, :_NEAREST]
        similar = np.take_along_axis(cosines, nearest, 1)
        weights = np.exp(_SHARPNESS * (similar - similar.max(1, keepdims=True)))
        weights /= weights.sum(1, keepdims=True)
        found[start : start + _BLOCK] = (placed[nearest] * weights[..., None]).sum(1)
    found += generator.normal(0, spread, found.shape)
    found[chosen] = placed
    return found


def _scaled(positions: Array) -> Array:
    low, high = positions.min(axis=0), positions.max(axis=0)
    return np.asarray((positions - low) / np.where(high > low, high - low, 1), np.float32)
