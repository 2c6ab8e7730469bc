"""`NonNegativeEmbedding`: sparse non-negative codes of existing vectors."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from nonneg.convert._config import FitConfig
from nonneg.convert._fit import Fit
from nonneg.convert._head import FitReport, Head, encoded, report_on
from nonneg.convert._heads import HeadsEstimator, checked_rows
from nonneg.convert._neighbours import neighbours_kept
from nonneg.convert._rows import Rows
from nonneg.convert._store import Description, Format
from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.features import frame_of
from nonneg.labels import label_numbers
from nonneg.tables import as_column

_SCORED = 5_000  # maximum number of rows that `score` compares


class NonNegativeEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, HeadsEstimator):  # type: ignore[misc]
    """Sparse non-negative codes that keep the neighbourhoods of the given vectors.

    The codes are computed by a linear head, relu and top-k. The head is fitted so that the codes have the
    neighbours that the vectors have: the similarities of the frozen vectors are the co-occurrence matrix that is
    factorised. Known positives (pairs, groups, labels) can be added. Vectors are compared by cosine similarity;
    each code has length 1.

    Args:
        n_components: number of features.
        max_active: maximum number of active features per sample; None for no limit.
        temperature: temperature of the vectors' similarities; by default the one at which a sample has about 25
            neighbours in a batch of 512.
        supervised: treat samples with the same label as positives. Otherwise labels do not affect the fit.
        positive_share: weight of the known positives in a sample's neighbourhood, from 0 to 1.
        noise: size of the noise added while fitting, relative to the vectors' spread.
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

    _format = Format("NonNegativeEmbedding", "embedding")

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
        super().__init__(
            n_components,
            max_active,
            temperature,
            positive_share,
            noise,
            max_iter,
            batch_size,
            learning_rate,
            device,
            random_state,
            verbose,
        )
        self.supervised = supervised

    def fit(self, X: Any, y: Any = None, *, pairs: Any = None, groups: Any = None) -> Self:
        """Fit the head.

        Args:
            X: `(samples, width)`: an array or memory map of any float type, a torch tensor, a column of
                lists or arrays of Arrow, pandas or polars. A memory map is read batch by batch. Rows of zeros have
                no direction and cause a warning.
            y: one label per sample, for `supervised`; negative numbers, NaN, None and "" mean unlabelled.
            pairs: vectors of the same shape: row i of both are two views of the same thing.
            groups: one value per sample; samples with the same value are views of the same thing. Negative
                numbers, NaN, None and "" mean that a sample belongs to no group.
        """
        fit = self.begin(X, y, pairs=pairs, groups=groups)
        self._take_steps(fit)
        return self.finish(fit)

    def begin(self, X: Any, y: Any = None, *, pairs: Any = None, groups: Any = None) -> Fit:
        """Prepare a fit, for callers that run the steps themselves: call its `step`, then `finish`."""
        config = self._config()
        device = choose_device(self.device)
        X = self._validated(X, reset=True)
        parts = {"X": X}
        if sum(given is not None for given in (pairs, groups)) + bool(self.supervised) > 1:
            raise InputError("pairs, groups and supervised=True were given together, expected one of them")
        together = None
        if pairs is not None:
            pairs = checked_rows(pairs, "pairs")
            if pairs.shape != X.shape:
                raise InputError(f"pairs has shape {tuple(pairs.shape)}, expected that of X, {tuple(X.shape)}")
            parts["pairs"] = pairs
            together = torch.arange(len(X)).repeat(2)
        elif groups is not None:
            together = _numbered(groups, len(X), "groups")
        elif self.supervised:
            if y is None:
                raise InputError("supervised=True needs labels, but y is None")
            together = _numbered(y, len(X), "y")
        return Fit(Rows(*parts.values(), device=device), together, config, list(parts))

    def finish(self, fit: Fit) -> Self:
        """Complete a fit after its last step."""
        self.head_: Head = fit.head.cpu().requires_grad_(False)
        self.temperature_ = fit.temperature
        self.n_iter_ = fit.done
        self._n_features_out = self.head_.weight.shape[0]
        self.report_: FitReport = report_on(self.head_, fit.rows)
        return self

    def transform(self, X: Any) -> Any:
        """Codes `(samples, n_components)`, float32; each row has length 1, or is empty if no feature is active,
        as for a row of zeros.

        They are a SciPy `csr_array`, or after `set_output(transform="pandas")` a DataFrame with sparse columns.
        """
        codes = self.encode(X)
        container = _get_output_config("transform", self)["dense"]
        if container == "pandas":
            return frame_of(codes, self.get_feature_names_out(), X.index if hasattr(X, "iloc") else None)
        return codes if container == "default" else codes.toarray()  # which scikit-learn puts into its container

    def encode(self, X: Any) -> sp.csr_array:
        """Codes as in `transform`, always as a SciPy matrix."""
        check_is_fitted(self)
        return self._encoded(self._validated(X, reset=False))

    def _encoded(self, X: Any) -> sp.csr_array:
        return encoded(self.head_, Rows(X, device=choose_device(self.device)))

    def score(self, X: Any, y: Any = None) -> float:
        """The share of the 10 nearest neighbours that the codes keep, on at most 5,000 rows and at least two."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if len(X) > _SCORED:
            kept = np.sort(np.random.default_rng(0).choice(len(X), _SCORED, replace=False))
            X = X[torch.from_numpy(kept).to(X.device)] if isinstance(X, Tensor) else X[kept]
        return neighbours_kept(X, self._encoded(X))

    # On disk and on the hub

    def _described(self, folder: Path) -> Description:
        described = super()._described(folder)
        described.config["temperature"] = self.temperature_
        return described

    def _card(self) -> dict[str, str]:
        features, width = self.head_.weight.shape
        return {
            "task": "feature-extraction",
            "title": f"Non-negative codes for vectors of {width} numbers",
            "text": f"Turns vectors of {width} numbers into {features} non-negative features, {self.head_.limit()}.",
            "use": "codes = embedding.transform(vectors)  # SciPy CSR, rows of length 1",
        }

    @classmethod
    def _restored(cls, config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> Self:
        embedding = super()._restored(config, tensors, folder)
        embedding.temperature_ = float(config["temperature"])
        embedding._n_features_out, embedding.n_features_in_ = embedding.head_.weight.shape
        return embedding

    def _validated(self, X: Any, reset: bool) -> Any:
        X = as_column(X)
        if isinstance(X, Tensor | pa.Array | pa.ChunkedArray):
            X = checked_rows(X, "X")
            # scikit-learn only counts and names the columns; it need not see the values, which may be on a GPU.
            validate_data(self, np.broadcast_to(np.float32(0), tuple(X.shape)), reset=reset, skip_check_array=True)
            return X
        return validate_data(self, X, dtype="numeric", reset=reset, ensure_min_samples=2 if reset else 1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _numbered(values: Any, rows: int, name: str) -> Tensor:
    """The number of each sample's group; -1 for none."""
    if np.shape(values) != (rows,):
        raise InputError(f"{name} has shape {np.shape(values)}, expected one value for each of the {rows} samples")
    return torch.from_numpy(label_numbers(values, name, required=False)[0])
