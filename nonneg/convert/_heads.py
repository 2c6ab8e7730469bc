"""What `NonNegativeEmbedding` and `NonNegativePair` share: parameters, checks of vectors, and how heads are saved."""

import dataclasses
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array
from torch import Tensor

from nonneg.convert._config import FitConfig, checked_config
from nonneg.convert._head import FitReport, Head
from nonneg.convert._store import Description, Pretrained, as_json, check_tensors
from nonneg.errors import InputError
from nonneg.progress import progress_bar
from nonneg.tables import arrow_vectors, as_column


class HeadsEstimator(Pretrained, BaseEstimator):  # type: ignore[misc]
    """An estimator with one head, `head_`, or with two, `head_a_` and `head_b_`, and a report on each."""

    _sides: ClassVar[tuple[str, ...]] = ("",)  # or ("_a", "_b")

    def __init__(
        self,
        n_components: int,
        max_active: int | None,
        temperature: float | None,
        positive_share: float,
        noise: float,
        max_iter: int,
        batch_size: int,
        learning_rate: float,
        device: str,
        random_state: int | np.random.RandomState | None,
        verbose: bool | int,
    ) -> None:
        self.n_components = n_components
        self.max_active = max_active
        self.temperature = temperature
        self.positive_share = positive_share
        self.noise = noise
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _config(self) -> FitConfig:
        """The config of a fit, with a seed drawn from the random state."""
        return checked_config(self.get_params(), int(check_random_state(self.random_state).randint(2**31 - 1)))

    def _take_steps(self, fit: Any) -> None:
        with progress_bar(bool(self.verbose)) as bar:
            task = bar.add_task("fitting", total=self.max_iter)
            while fit.done < self.max_iter:
                fit.step()
                bar.advance(task)

    def _described(self, folder: Path) -> Description:
        heads: dict[str, Head] = {side: getattr(self, f"head{side}_") for side in self._sides}
        reports: dict[str, FitReport] = {side: getattr(self, f"report{side}_") for side in self._sides}
        first = heads[self._sides[0]]
        about = {
            side: {
                "width": head.weight.shape[1],
                "report": dataclasses.asdict(reports[side]),
                "feature_names_in": list(getattr(self, f"feature_names_in{side}_", [])),
            }
            for side, head in heads.items()
        }
        config = {
            "heads": about,
            "features": first.weight.shape[0],
            "max_active": first.max_active,
            "parameters": {name: as_json(value) for name, value in self.get_params(deep=False).items()},
            "n_iter": self.n_iter_,
        }
        tensors = {
            f"{side}{name}": tensor for side, head in heads.items() for name, tensor in head.state_dict().items()
        }
        of = {side: f" of {side[1:].upper()}" if side else "" for side in heads}
        return Description(config, tensors, self._card(), {of[side]: report for side, report in reports.items()})

    @abstractmethod
    def _card(self) -> dict[str, str]:
        """What the model card says."""

    @classmethod
    def _restored(cls, config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> Self:
        estimator = cls(**config["parameters"])
        features, about = int(config["features"]), {side: config["heads"][side] for side in cls._sides}
        shapes = {f"{side}weight": (features, int(head["width"])) for side, head in about.items()}
        check_tensors(tensors, {**shapes, **{f"{side}bias": (features,) for side in about}})
        # The heads' own limit, as the parameter may have changed since the fit.
        limited = estimator.get_params() | {"max_active": config["max_active"]}
        for side, (_, width) in zip(about, shapes.values(), strict=True):
            head = Head(width, features, checked_config(limited).max_active)
            head.load_state_dict({name: tensors[f"{side}{name}"].to(torch.float32) for name in ("weight", "bias")})
            setattr(estimator, f"head{side}_", head.requires_grad_(False))
            setattr(estimator, f"report{side}_", FitReport(**about[side]["report"]))
            names = [str(name) for name in about[side]["feature_names_in"]]
            if len(names) not in (0, width):
                raise ValueError(f"it names {len(names)} of {width} columns")
            if names:
                setattr(estimator, f"feature_names_in{side}_", np.array(names, object))
        estimator.n_iter_ = int(config["n_iter"])
        return estimator


def checked_rows(rows: Any, name: str, least: int = 1) -> Any:
    """Finite vectors `(rows, width)`, at least `least` of them, as an array or a tensor, which is not moved."""
    rows = as_column(rows)
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        rows = arrow_vectors(rows, name)
    if not isinstance(rows, Tensor):
        return check_array(rows, dtype="numeric", input_name=name, ensure_min_samples=least)
    if rows.dim() != 2 or len(rows) < least or rows.shape[1] == 0:
        raise InputError(f"{name} has shape {tuple(rows.shape)}, expected (rows, width), at least ({least}, 1)")
    if rows.is_complex() or not bool(rows.isfinite().all()):
        raise InputError(f"{name} contains NaN, infinity or complex numbers, expected finite real numbers")
    return rows.detach()
