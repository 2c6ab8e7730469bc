"""`NonNegativePair`: comparable non-negative codes of two modalities."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from sklearn.utils.validation import check_is_fitted

from nonneg import losses, metrics
from nonneg.convert._config import FitConfig
from nonneg.convert._fit import Fit, update
from nonneg.convert._head import Head, encoded, report_on
from nonneg.convert._heads import HeadsEstimator, checked_rows
from nonneg.convert._rows import Rows
from nonneg.convert._store import Format
from nonneg.devices import choose_device
from nonneg.errors import InputError


class NonNegativePair(HeadsEstimator):
    """Comparable codes of two modalities: row i of `A` and row i of `B` are a pair.

    Two linear heads, each with relu and top-k, map to the same features. They are fitted with the multi-modal
    InfoNCE loss (each row must find its partner among the rows of the other modality). The neighbourhoods within
    each modality are kept, too, so that a small number of pairs is not memorised.

    Args:
        n_components: number of features, shared by both modalities.
        max_active: maximum number of active features per sample; None for no limit.
        temperature: temperature of the similarities; None chooses it from the data, as in `NonNegativeEmbedding`.
        positive_share: weight of the pairs, relative to the neighbourhoods within each modality, from 0 to 1.
        noise: size of the noise added while fitting, relative to the vectors' spread.
        max_iter: number of steps, one batch each.
        batch_size: pairs per step.
        learning_rate: learning rate of Adam.
        device: device to compute on: "cpu", "cuda", …; "auto" uses a GPU if there is one.
        random_state: seed of the initialisation, the order of pairs and the noise.
        verbose: show a progress bar.

    Attributes:
        head_a_, head_b_: the fitted heads, torch modules, on the CPU.
        report_a_, report_b_: which features are live, dead or dense on the data of the fit.
        feature_names_in_a_, feature_names_in_b_: names of the columns, if fitted on DataFrames with column names.
        n_iter_: number of steps made.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, _ = load_digits(return_X_y=True)
        >>> left, right = X.reshape(-1, 8, 8)[:, :, :4].reshape(-1, 32), X.reshape(-1, 8, 8)[:, :, 4:].reshape(-1, 32)
        >>> pair = NonNegativePair(n_components=64, max_active=8, max_iter=50, random_state=0).fit(left, right)
        >>> pair.transform_a(left[:3]).shape, pair.transform_b(right[:3]).shape
        ((3, 64), (3, 64))
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = NonNegativePair.from_pretrained(pair.save_pretrained(folder))
        >>> bool((again.transform_b(right) != pair.transform_b(right)).nnz == 0)
        True
    """

    _format = Format("NonNegativePair", "pair")
    _sides = ("_a", "_b")

    def __init__(
        self,
        n_components: int = FitConfig.n_components,
        max_active: int | None = FitConfig.max_active,
        *,
        temperature: float | None = FitConfig.temperature,
        positive_share: float = 0.5,
        noise: float = FitConfig.noise,
        max_iter: int = FitConfig.max_iter,
        batch_size: int = 256,
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

    def fit(self, A: Any, B: Any) -> Self:
        """Fit both heads on pairs.

        Args:
            A: `(pairs, width of A)`: an array or memory map, a DataFrame, a torch tensor, an Arrow column of lists.
            B: `(pairs, width of B)`, in any of the same forms; row i of both are a pair.
        """
        config = self._config()
        names = {"_a": _column_names(A), "_b": _column_names(B)}
        A, B = (checked_rows(rows, name, 2) for rows, name in ((A, "A"), (B, "B")))
        if len(A) != len(B):
            raise InputError(f"A has {len(A)} rows and B {len(B)}, expected the same number")
        device = choose_device(self.device)
        fit = _PairFit(Rows(A, device=device), Rows(B, device=device), config)
        self._take_steps(fit)
        self.head_a_, self.head_b_ = (side.head.cpu().requires_grad_(False) for side in fit.sides)
        self.report_a_, self.report_b_ = (report_on(side.head, side.rows) for side in fit.sides)
        self.n_iter_ = fit.done
        for side, found in names.items():
            self.__dict__.pop(f"feature_names_in{side}_", None)  # of an earlier fit
            if found is not None:
                setattr(self, f"feature_names_in{side}_", found)
        return self

    def transform_a(self, A: Any) -> sp.csr_array:
        """Codes of the first modality, `(rows, n_components)`, float32, each row of length 1."""
        return self._encoded("A", A)

    def transform_b(self, B: Any) -> sp.csr_array:
        """Codes of the second modality, `(rows, n_components)`, float32, each row of length 1."""
        return self._encoded("B", B)

    def score(self, A: Any, B: Any) -> float:
        """Recall@1: how often the code of `B` that is nearest to a row of `A` belongs to its partner."""
        a, b = self.transform_a(A), self.transform_b(B)
        if a.shape[0] != b.shape[0]:
            raise InputError(f"A has {a.shape[0]} rows and B {b.shape[0]}, expected the same number")
        return float(metrics.recall_at_k(a, b, k=1))

    # On disk and on the hub

    def _card(self) -> dict[str, str]:
        features, a = self.head_a_.weight.shape
        b = self.head_b_.weight.shape[1]
        return {
            "task": "feature-extraction",
            "title": f"Non-negative codes for pairs of vectors with {a} and {b} numbers",
            "text": f"Turns vectors of {a} numbers and their partners of {b} numbers into the same {features}"
            f" non-negative features, {self.head_a_.limit()}.",
            "use": "a, b = pair.transform_a(first), pair.transform_b(second)  # SciPy CSR, comparable: a @ b.T",
        }

    def _encoded(self, name: str, rows: Any) -> sp.csr_array:
        check_is_fitted(self)
        head: Head = self.head_a_ if name == "A" else self.head_b_
        fitted, given = getattr(self, f"feature_names_in_{name.lower()}_", None), _column_names(rows)
        rows = checked_rows(rows, name, 1)
        if rows.shape[1] != head.weight.shape[1]:
            raise InputError(f"{name} has vectors of {rows.shape[1]} numbers, expected {head.weight.shape[1]}")
        if fitted is not None and given is not None and (given != fitted).any():
            place = int((given != fitted).argmax())
            raise InputError(
                f"{name} has the column {given[place]!r} at {place}, expected {fitted[place]!r}, as in the fit"
            )
        return encoded(head, Rows(rows, device=choose_device(self.device)))


def _column_names(rows: Any) -> npt.NDArray[Any] | None:
    """Names of a DataFrame's columns, as scikit-learn stores them; None if they are not strings."""
    columns = list(getattr(rows, "columns", ()))
    return np.array(columns, object) if columns and all(isinstance(column, str) for column in columns) else None


class _PairFit:
    """One fit per modality; each step updates both, because a pair has one row in each."""

    def __init__(self, a: Rows, b: Rows, config: FitConfig) -> None:
        self.config = config
        self.sides = [Fit(rows, None, config, [name]) for rows, name in ((a, "A"), (b, "B"))]
        # Both fits drew the same samples for their initialisation, so feature i means the same in both. Their noise
        # must differ: with shared noise, partners would be found by it.
        self.sides[1].noise.manual_seed(config.seed + 1)
        parameters = [p for side in self.sides for p in side.head.parameters()]
        self.log_scales = [side.log_scale for side in self.sides]
        self.optimiser = torch.optim.Adam([*parameters, *self.log_scales], config.learning_rate, (0.9, 0.99))
        self.done = 0

    def step(self) -> None:
        picked, progress = next(self.sides[0].batches), self.done / self.config.max_iter
        share = self.config.positive_share
        (_, a, loss_a), (_, b, loss_b) = (side.neighbourhood(picked, progress) for side in self.sides)
        matching = losses.multimodal.info_nce(a, b, torch.exp(-self.log_scales[0]))
        update(self.optimiser, (1 - share) / 2 * (loss_a + loss_b) + share * matching, self.config, self.done)
        self.done += 1
