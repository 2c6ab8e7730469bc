"""`NonNegativeEmbedding`: sparse non-negative codes of existing vectors."""

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

from nonneg.convert._config import FitConfig, checked_config
from nonneg.convert._fit import Fit
from nonneg.convert._head import Head, encoded
from nonneg.convert._neighbours import neighbours_kept
from nonneg.convert._report import FitReport, report_on
from nonneg.convert._rows import Rows
from nonneg.convert._store import load, push, save
from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.labels import UNLABELLED, is_labelled, label_numbers
from nonneg.progress import progress_bar
from nonneg.tables import arrow_vectors

_SCORED = 5_000  # maximum number of rows that `score` compares


class NonNegativeEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Sparse non-negative codes that keep the neighbourhoods of the given vectors.

    The codes are computed by a linear head, relu and top-k. The head is fitted so that the codes have the
    neighbours that the vectors have: the similarities of the frozen vectors are the co-occurrence matrix that is
    factorised. Known positives (pairs, groups, labels) can be added. Vectors are compared by cosine similarity;
    each code has length 1.

    Args:
        n_components: number of features.
        max_active: maximum number of active features per sample; None for no limit.
        temperature: temperature of the vectors' similarities; None chooses the one at which a sample has about 25
            neighbours in a batch of 512.
        supervised: treat samples with the same label in `y` as positives. Otherwise `y` is ignored.
        positive_share: weight of the known positives in a sample's neighbourhood, from 0 to 1.
        noise: size of the noise that codes must be robust to, relative to the vectors' spread.
        max_iter: number of steps, one batch each; the fit takes equally long for any number of rows.
        batch_size: rows per step.
        learning_rate: learning rate of Adam.
        device: device to compute on: "cpu", "cuda", …; "auto" uses a GPU if there is one.
        random_state: seed of the initialisation, the order of rows and the noise.
        verbose: show a progress bar.

    Attributes:
        head_: the fitted head, a torch module, on the CPU.
        report_: which features are live, dead or dense on the data of the fit.
        temperature_: temperature of the vectors' similarities.
        n_iter_: number of steps made.
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
        n_components: int = FitConfig.n_components,
        max_active: int | None = FitConfig.max_active,
        *,
        temperature: float | None = FitConfig.temperature,
        supervised: bool = False,
        positive_share: float = FitConfig.positive_share,
        noise: float = FitConfig.noise,
        max_iter: int = FitConfig.max_iter,
        batch_size: int = FitConfig.batch_size,
        learning_rate: float = FitConfig.learning_rate,
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
                lists. A memory map is read batch by batch.
            y: one label per sample, for `supervised`; negative numbers, NaN, None and "" mean unlabelled.
            pairs: vectors of the same shape: row i of both are two views of the same thing.
            groups: one value per sample; samples with the same value are views of the same thing. Negative
                numbers, NaN, None and "" mean that a sample belongs to no group.
        """
        fit = self.begin(X, y, pairs=pairs, groups=groups)
        with progress_bar(bool(self.verbose)) as bar:
            task = bar.add_task("fitting", total=self.max_iter)
            while fit.done < self.max_iter:
                fit.step()
                bar.advance(task)
        return self.finish(fit)

    def begin(self, X: Any, y: Any = None, *, pairs: Any = None, groups: Any = None) -> Fit:
        """Prepare a fit, for callers that run the steps themselves: call its `step`, then `finish`."""
        config = checked_config(self.get_params(), int(check_random_state(self.random_state).randint(2**31 - 1)))
        device = choose_device(self.device)
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
        """Complete a fit after its last step."""
        self.head_: Head = fit.head.cpu().requires_grad_(False)
        self.temperature_ = fit.temperature
        self.n_iter_ = fit.done
        self._n_features_out = self.head_.weight.shape[0]
        self.report_: FitReport = report_on(self.head_, Rows(*fit.rows.parts, device=torch.device("cpu")))
        return self

    def transform(self, X: Any) -> sp.csr_array:
        """Codes `(samples, n_components)`, float32; each row has length 1, or is empty if no feature is active."""
        check_is_fitted(self)
        return encoded(self.head_, Rows(self._validated(X, reset=False), device=choose_device(self.device)))

    def score(self, X: Any, y: Any = None) -> float:
        """The share of the 10 nearest neighbours that the codes keep, on at most 5,000 rows."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if len(X) > _SCORED:
            kept = np.sort(np.random.default_rng(0).choice(len(X), _SCORED, replace=False))
            X = X[torch.from_numpy(kept).to(X.device)] if isinstance(X, Tensor) else X[kept]
        return neighbours_kept(X, self.transform(X))

    # On disk and on the hub

    def save_pretrained(self, folder: str | Path, measured: dict[str, float] | None = None) -> Path:
        """Write `config.json`, `model.safetensors` and a model card with the report and the measured figures."""
        check_is_fitted(self)
        return save(self, Path(folder), measured)

    @classmethod
    def from_pretrained(cls, path: str | Path) -> "NonNegativeEmbedding":
        """Load a fitted embedding from a run of `nonneg convert`, a folder, or the hub: `hub:owner/name`."""
        return load(path)

    def push_to_hub(self, repository: str, private: bool = False) -> str:
        """Upload to the Hugging Face Hub, as `owner/name`; return the address of the upload."""
        with tempfile.TemporaryDirectory() as folder:
            return push(self.save_pretrained(folder), repository, private)

    def _validated(self, X: Any, reset: bool) -> Any:
        if isinstance(X, pa.Array | pa.ChunkedArray):
            X = arrow_vectors(X, "X")
        if isinstance(X, Tensor):
            check_tensor(X, "X")
            # scikit-learn only counts and names the columns; it need not see the values, which may be on a GPU.
            validate_data(self, np.broadcast_to(np.float32(0), X.shape), reset=reset, skip_check_array=True)
            return X
        return validate_data(self, X, dtype="numeric", reset=reset, ensure_min_samples=2 if reset else 1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def check_tensor(X: Tensor, name: str, least: int = 1) -> None:
    """Check that a tensor holds finite vectors, at least `least` of them, without moving it."""
    if X.dim() != 2 or len(X) < least or X.shape[1] == 0:
        raise InputError(f"{name} has shape {tuple(X.shape)}, expected (rows, width), at least ({least}, 1)")
    if X.is_complex() or not bool(X.isfinite().all()):
        raise InputError(f"{name} contains NaN, infinity or complex numbers, expected finite real numbers")


def _checked(estimator: NonNegativeEmbedding, pairs: Any) -> Any:
    if isinstance(pairs, pa.Array | pa.ChunkedArray):
        pairs = arrow_vectors(pairs, "pairs")
    if isinstance(pairs, Tensor):
        check_tensor(pairs, "pairs")
        return pairs
    return check_array(pairs, dtype="numeric", input_name="pairs", estimator=estimator)


def _numbered(values: Any, rows: int, name: str) -> Tensor:
    """The number of each sample's group; -1 for none."""
    if np.shape(values) != (rows,):
        raise InputError(f"{name} has shape {np.shape(values)}, expected one value for each of the {rows} samples")
    if not is_labelled(values).any():
        return torch.full((rows,), UNLABELLED)
    return torch.from_numpy(label_numbers(values, name)[0])
