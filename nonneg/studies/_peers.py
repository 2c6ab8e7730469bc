"""The methods of `compare`: ways of turning vectors into codes, nonneg among them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from sklearn.base import clone
from sklearn.decomposition import NMF, PCA, FastICA, MiniBatchDictionaryLearning

from nonneg.convert import NonNegativeEmbedding
from nonneg.devices import choose_device
from nonneg.rectify import top_k

Array = npt.NDArray[np.float32]

_BATCH = 512  # rows per step of the autoencoder and of dictionary learning, as in nonneg
_ICA_ITERATIONS = 100
_NMF_ITERATIONS = 15
_NMF_PENALTY = 1e-5
_DICTIONARY_PASSES = 3
_DICTIONARY_PENALTY = 0.1
_CODING_SWEEPS = 30
_SYMMETRIC_ITERATIONS = 300
_ROWS_PER_FEATURE = 4  # of symmetric NMF: with as many features as rows, each row would get its own
_LEARNING_RATE = 7e-3  # the best probe accuracy among 1e-3 to 1e-2; reconstruction is flat from 5e-3 on
_WARM_UP = 20  # steps


@dataclass(frozen=True)
class Settings:
    """Settings that all methods share, and the estimator to compare; `max_iter` limits the iterations of all."""

    n_components: int
    max_active: int
    max_iter: int
    seed: int
    embedding: NonNegativeEmbedding


@dataclass(frozen=True)
class Fitted:
    """A fitted method: its encoder of vectors `(rows, width)`, and the iteration limit if it did not converge."""

    encode: Callable[[Array], Any]
    stopped_at: int | None = None


@dataclass(frozen=True)
class Method:
    """A way of turning vectors into codes.

    Attributes:
        title: its name in tables.
        fit: takes unit rows `(rows, width)`, their pairs or None, and the settings.
        is_random: whether the codes depend on the seed.
        is_transductive: whether it can only encode the rows it was fitted on.
    """

    title: str
    fit: Callable[[Array, Array | None, Settings], Fitted]
    is_random: bool = True
    is_transductive: bool = False


def _raw(x: Array, pairs: Array | None, settings: Settings) -> Fitted:
    return Fitted(lambda rows: rows)


def _pca(x: Array, pairs: Array | None, settings: Settings) -> Fitted:
    rows = _stack(x, pairs)
    return Fitted(PCA(min(settings.n_components, *rows.shape), svd_solver="full").fit(rows).transform)


def _ica(x: Array, pairs: Array | None, settings: Settings) -> Fitted:
    """At most as many components as the rows have dimensions: whitening would turn the others into noise."""
    rows = _stack(x, pairs)
    rank = int(np.linalg.matrix_rank(rows - rows.mean(0)))
    limit = min(_ICA_ITERATIONS, settings.max_iter)
    model = FastICA(min(settings.n_components, rank), max_iter=limit, random_state=settings.seed).fit(rows)
    return Fitted(model.transform, _unconverged(model, limit))


def _nmf(x: Array, pairs: Array | None, settings: Settings) -> Fitted:
    """NMF of `[max(x, 0), max(-x, 0)]`, started from an SVD, with a small L1 penalty, which is better than none.

    At most `width` components: with twice as many, the number of input columns, the identity would be a solution.
    """
    rows = _stack(x, pairs)
    limit = min(_NMF_ITERATIONS, settings.max_iter)
    # Coordinate descent reaches exact zeros; the multiplicative updates of MiniBatchNMF never do.
    model = NMF(
        min(settings.n_components, *rows.shape),
        init="nndsvd",
        alpha_W=_NMF_PENALTY,
        l1_ratio=1.0,
        max_iter=limit,
        random_state=settings.seed,
    ).fit(_split(rows))
    return Fitted(lambda rows: model.transform(_split(rows)), _unconverged(model, limit))


def _dictionary(x: Array, pairs: Array | None, settings: Settings) -> Fitted:
    """Sparse coding by a positive lasso; only the `max_active` largest entries of each row are kept."""
    limit = min(_DICTIONARY_PASSES, settings.max_iter)
    model = MiniBatchDictionaryLearning(
        settings.n_components,
        alpha=_DICTIONARY_PENALTY,
        max_iter=limit,
        batch_size=_BATCH,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        transform_max_iter=_CODING_SWEEPS,
        positive_code=True,
        random_state=settings.seed,
    ).fit(_stack(x, pairs))

    def encode(rows: Array) -> sp.csr_array:
        return _largest(torch.from_numpy(model.transform(rows)), settings)

    return Fitted(encode, _unconverged(model, limit))


def _autoencoder(x: Array, pairs: Array | None, settings: Settings, start_at_samples: bool = False) -> Fitted:
    """`z = top_k(W (x - b) + c)`, decoded as `z D + b` with unit rows of `D`; squared error, Adam, cosine schedule.

    It takes as many steps as nonneg. Features start as random directions, as usual, or as the directions from the mean
    to samples, as in nonneg; `W` and `D` start equal.
    """
    rows = torch.from_numpy(_stack(x, pairs)).to(choose_device())
    count, (total, width) = settings.n_components, rows.shape
    generator = torch.Generator().manual_seed(settings.seed)
    centre = rows.mean(0).requires_grad_()
    start = torch.randn(count, width, generator=generator).to(rows.device)
    if start_at_samples:
        picked = torch.randperm(total, generator=generator)[torch.arange(count) % total]
        start = (
            rows[picked] - centre.detach() + 0.01 / math.sqrt(width) * start
        )  # so that features of equal rows can diverge
    decoder = F.normalize(start).requires_grad_()
    encoder = decoder.detach().clone().requires_grad_()
    bias = torch.zeros(count, device=rows.device, requires_grad=True)
    optimiser = torch.optim.Adam([encoder, decoder, bias, centre], _LEARNING_RATE, fused=True)
    order = torch.empty(0, dtype=torch.int64)
    for step in range(settings.max_iter):
        if len(order) < min(_BATCH, total):
            order = torch.randperm(total, generator=generator)
        batch, order = rows[order[:_BATCH]], order[_BATCH:]
        rate = min(1.0, (step + 1) / _WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / settings.max_iter))
        optimiser.param_groups[0]["lr"] = _LEARNING_RATE * rate
        before = F.linear(batch, encoder, bias - encoder @ centre)
        values, columns = before.topk(min(settings.max_active, count), dim=1, sorted=False)
        decoded = F.embedding_bag(columns, decoder, per_sample_weights=values.relu(), mode="sum") + centre
        loss = (decoded - batch).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            decoder.copy_(F.normalize(decoder))

    @torch.no_grad()
    def encode(rows: Array) -> sp.csr_array:
        vectors = torch.from_numpy(rows).to(encoder.device)
        return _largest(F.linear(vectors, encoder, bias - encoder @ centre), settings)

    return Fitted(encode)


def _nonneg(x: Array, pairs: Array | None, settings: Settings) -> Fitted:
    model = clone(settings.embedding).set_params(random_state=settings.seed)
    return Fitted(model.fit(x, pairs=pairs).transform)


def _symmetric_nmf(x: Array, pairs: Array | None, settings: Settings) -> Fitted:
    codes, stopped_at = symmetric_nmf(x, settings.n_components, settings.max_iter, settings.seed)
    return Fitted(lambda rows: codes, stopped_at)


def symmetric_nmf(x: Array, n_components: int, max_iter: int, seed: int) -> tuple[Array, int | None]:
    """Return `z` with `max(x xᵀ, 0) ≈ z zᵀ`, and the iteration limit if it did not converge.

    Multiplicative updates with a half step (Ding et al. 2008); a quarter as many features as rows at most. It cannot
    encode other rows.

    Example:
        >>> x = np.repeat(np.eye(2, dtype=np.float32), 8, axis=0)
        >>> z, _ = symmetric_nmf(x, n_components=2, max_iter=100, seed=0)
        >>> bool(np.abs(z @ z.T - x @ x.T).max() < 0.01)
        True
    """
    kernel = torch.from_numpy(x @ x.T).relu_()
    count = max(1, min(n_components, len(x) // _ROWS_PER_FEATURE))
    generator = torch.Generator().manual_seed(seed)
    z = torch.rand(len(x), count, generator=generator) * 2 * (kernel.mean() / count).sqrt()
    limit = min(_SYMMETRIC_ITERATIONS, max_iter)
    for _ in range(limit):
        before = z
        z = before * (0.5 + 0.5 * (kernel @ z) / (z @ (z.T @ z)).clamp(min=torch.finfo(z.dtype).tiny))
        if float((z - before).norm()) < 1e-4 * float(z.norm()):
            return z.numpy(), None
    return z.numpy(), limit


def _stack(x: Array, pairs: Array | None) -> Array:
    return x if pairs is None else np.concatenate([x, pairs])


def _split(x: Array) -> Array:
    """Return the positive and the negative parts side by side: `(rows, width)` to `(rows, 2 width)`."""
    return np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], axis=1)


def _largest(before: torch.Tensor, settings: Settings) -> sp.csr_array:
    return sp.csr_array(top_k(before, min(settings.max_active, before.shape[1])).cpu().numpy())


def _unconverged(model: Any, limit: int) -> int | None:
    return limit if model.n_iter_ >= limit else None


METHODS = {
    "raw": Method("raw vectors", _raw, is_random=False),
    "pca": Method("PCA", _pca, is_random=False),
    "ica": Method("FastICA", _ica),
    "nmf": Method("NMF of the split ± input", _nmf),
    "symmetric-nmf": Method("symmetric NMF", _symmetric_nmf, is_transductive=True),
    "dictionary": Method("dictionary learning", _dictionary),
    "autoencoder": Method("TopK autoencoder", _autoencoder),
    "autoencoder-samples": Method("the same, started at samples", partial(_autoencoder, start_at_samples=True)),
    "nonneg": Method("nonneg", _nonneg),
}
"""The methods that `compare` knows, by name: each turns training and test vectors into codes."""
