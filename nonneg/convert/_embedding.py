"""`NonNegativeEmbedding`: sparse non-negative codes of vectors that somebody already has."""

import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from nonneg.convert._fit import Fit, FitConfig
from nonneg.convert._head import Head, encoded
from nonneg.convert._neighbours import neighbours_kept
from nonneg.convert._parameters import checked_config, device_of
from nonneg.convert._report import FitReport, report_on
from nonneg.convert._rows import Rows
from nonneg.convert._store import load, push, save
from nonneg.errors import InputError
from nonneg.progress import progress_bar
from nonneg.tables import arrow_vectors

_SCORED = 5_000  # rows whose neighbours `score` compares, at most


class NonNegativeEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Sparse non-negative codes that keep what the given vectors know.

    A linear head, relu and top-k, fitted so that codes have the neighbours that the vectors have: the
    similarities of the frozen vectors are the co-occurrence that is factorised. Known positives (pairs,
    groups, labels) can be added. Vectors are compared by direction, as cosine similarity does; codes have
    length 1 each.

    Args:
        n_components: features.
        max_active: how many of them may be active on a sample; None for no limit.
        temperature: of the vectors' similarities; None takes the one at which a sample has about 25
            neighbours in a batch of 512.
        supervised: samples of the same label in `y` are positives. Otherwise `y` is not looked at.
        positive_share: how much of a sample's neighbourhood known positives make up.
        noise: how far beside each vector its code must still hold, in units of the vectors' spread.
        max_iter: steps, of a batch each: how long fitting takes does not depend on how many rows there are.
        batch_size: rows a step.
        learning_rate: of Adam.
        device: "cpu", "cuda", …; "auto" is a GPU where there is one.
        random_state: of the start, the order of rows and the noise.
        verbose: show a progress bar.

    Attributes:
        head_: the fitted head, a torch module.
        report_: which features are live, dead or dense on the data of the fit.
        temperature_: of the vectors' similarities.
        n_iter_: steps made.
        n_features_in_: width of the vectors.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, _ = load_digits(return_X_y=True)
        >>> embedding = NonNegativeEmbedding(n_components=64, max_active=8, max_iter=50, random_state=0)
        >>> codes = embedding.fit_transform(X)
        >>> codes.shape, codes.dtype, bool((codes.count_nonzero(axis=1) <= 8).all())
        ((1797, 64), dtype('float32'), True)
    """

    def __init__(
        self,
        n_components: int = 1024,
        max_active: int | None = 32,
        *,
        temperature: float | None = None,
        supervised: bool = False,
        positive_share: float = 0.3,
        noise: float = 0.7,
        max_iter: int = 1200,
        batch_size: int = 512,
        learning_rate: float = 0.005,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_components = n_components
        self.max_active = max_active
        self.temperature = temperature
        self.supervised = supervised
        self.positive_share = positive_share
        self.noise = noise
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, pairs: Any = None, groups: Any = None) -> Self:
        """Fit the head.

        Args:
            X: `(samples, width)`: an array or memory map of any float type, a torch tensor, an Arrow column of
                lists. A memory map is read a batch at a time.
            y: labels, one a sample, for `supervised`; negative numbers are unlabelled.
            pairs: vectors of the same shape: row i of both are two views of one thing.
            groups: one value a sample; samples of the same value are views of one thing.
        """
        fit = self.begin(X, y, pairs=pairs, groups=groups)
        with progress_bar(bool(self.verbose)) as bar:
            task = bar.add_task("fitting", total=self.max_iter)
            while fit.done < self.max_iter:
                fit.step()
                bar.advance(task)
        return self.finish(fit)

    def begin(self, X: Any, y: Any = None, *, pairs: Any = None, groups: Any = None) -> Fit:
        """What `fit` does before its first step, for who makes the steps himself: `step` it, then `finish`."""
        config = self._config()
        device = device_of(self.device)
        X = self._validated(X, reset=True)
        parts = [X]
        if sum(given is not None for given in (pairs, groups)) + bool(self.supervised) > 1:
            raise InputError("pairs, groups and supervised=True were given together, expected one of them")
        together = None
        if pairs is not None:
            pairs = _checked(self, pairs)
            if pairs.shape != X.shape:
                raise InputError(f"pairs has shape {tuple(pairs.shape)}, expected that of X, {tuple(X.shape)}")
            parts.append(pairs)
            together = torch.arange(len(X)).repeat(2)
        elif groups is not None:
            together = _numbered(groups, len(X), "groups")
        elif self.supervised:
            if y is None:
                raise InputError("supervised=True needs labels, but y is None")
            together = _numbered(y, len(X), "y")
        return Fit(Rows(*parts, device=device), together, config)

    def finish(self, fit: Fit) -> Self:
        """What `fit` does after its last step."""
        self.head_: Head = fit.head.cpu().requires_grad_(False)
        self.temperature_ = fit.temperature
        self.n_iter_ = fit.done
        self._n_features_out = self.head_.weight.shape[0]
        seen = Rows(*fit.rows.parts, device=torch.device("cpu"))
        self.report_: FitReport = report_on(self.head_, seen)
        return self

    def _config(self) -> FitConfig:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return checked_config(self.get_params(), seed)

    def transform(self, X: Any) -> sp.csr_array:
        """Codes `(samples, n_components)`, float32, each row of length 1 (or empty, where no feature is active)."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        device = device_of(self.device)
        return encoded(self.head_.to(device), Rows(X, device=device))

    def score(self, X: Any, y: Any = None) -> float:
        """Which share of the 10 nearest neighbours are the same before and after; of 5,000 rows at most."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if len(X) > _SCORED:
            kept = np.sort(np.random.default_rng(0).choice(len(X), _SCORED, replace=False))
            X = X[torch.from_numpy(kept).to(X.device)] if isinstance(X, Tensor) else X[kept]
        return neighbours_kept(X, self.transform(X))

    # On disk and on the hub

    def save_pretrained(self, folder: str | Path, measured: dict[str, float] | None = None) -> Path:
        """Write `config.json`, `model.safetensors` and a model card with the report and figures that were measured."""
        check_is_fitted(self)
        return save(self, Path(folder), measured)

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "NonNegativeEmbedding":
        """A fitted embedding from a run of `nonneg convert`, a folder, or the hub: `hub:owner/name`."""
        return load(path)

    def push_to_hub(self, repository: str, private: bool = False) -> str:
        """Upload to the Hugging Face Hub, as `owner/name`; the address of what was uploaded."""
        with tempfile.TemporaryDirectory() as folder:
            return push(self.save_pretrained(folder), repository, private)

    def _validated(self, X: Any, reset: bool) -> Any:
        if isinstance(X, pa.Array | pa.ChunkedArray):
            X = arrow_vectors(X, "X")
        if isinstance(X, Tensor):
            _check_tensor(X, "X")
            # scikit-learn counts and names columns; it need not see the values, which may be on a GPU.
            validate_data(self, np.broadcast_to(np.float32(0), X.shape), reset=reset, skip_check_array=True)
            return X
        return validate_data(self, X, dtype="numeric", reset=reset, ensure_min_samples=2 if reset else 1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _check_tensor(X: Tensor, name: str) -> None:
    if X.dim() != 2 or 0 in X.shape:
        raise InputError(f"{name} has shape {tuple(X.shape)}, expected (samples, width), neither of them 0")
    if X.is_complex() or not bool(X.isfinite().all()):
        raise InputError(f"{name} contains NaN, infinity or complex numbers, expected finite ones")


def _checked(estimator: NonNegativeEmbedding, pairs: Any) -> Any:
    if isinstance(pairs, pa.Array | pa.ChunkedArray):
        pairs = arrow_vectors(pairs, "pairs")
    if isinstance(pairs, Tensor):
        _check_tensor(pairs, "pairs")
        return pairs
    return check_array(pairs, dtype="numeric", input_name="pairs", estimator=estimator)


def _numbered(values: Any, rows: int, name: str) -> Tensor:
    """Groups as numbers; negative numbers stay outside of all groups."""
    values = np.asarray(values)
    if values.ndim != 1 or len(values) != rows:
        raise InputError(f"{name} has shape {values.shape}, expected one value for each of the {rows} samples")
    _, numbers = np.unique(values, return_inverse=True)
    outside = values < 0 if np.issubdtype(values.dtype, np.signedinteger) else np.zeros(rows, bool)
    return torch.from_numpy(np.where(outside, -1, numbers).astype(np.int64))
