"""Fine-tuning: how far the encoder gets when all of its weights go on learning, from many labels or few."""

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.modalities.images import ViewConfig
from nonneg.models import Model, projector_of
from nonneg.rectify import NonNegative
from nonneg.training import TrainConfig
from nonneg.trials._labelled_training import CROP_AND_FLIP, fit, linear_head, prepared

Rectify = Literal["none", "relu", "rep_relu", "softplus", "sigmoid", "exp"]


@dataclass(frozen=True)
class FineTuned:
    """Accuracy on the test images at the end, and after each epoch; the last epoch counts, not the best.

    Attributes:
        accuracy: share of the labelled test samples that are told right.
        curve: the same after each epoch.
        samples: how many it was trained on.
        hits: `(labelled samples,)` booleans: which of them it told right.
    """

    accuracy: float
    curve: tuple[float, ...]
    samples: int
    hits: npt.NDArray[np.bool_] = field(compare=False, repr=False)


def fine_tune(
    model: Model,
    train: Source,
    test: Source,
    *,
    epochs: int = 30,
    fraction: float = 1.0,
    batch_size: int = 256,
    learning_rate: float = 0.05,
    weight_decay: float = 0.0005,
    projector: bool = False,
    rectify: Rectify = "none",
    rectify_weight: bool = False,
    views: ViewConfig = CROP_AND_FLIP,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool = False,
) -> FineTuned:
    """Train a copy of the encoder and a fresh linear layer on it with labels, by SGD with momentum 0.9.

    The given model stays as it was. On a CPU a seed gives the same figures each time; on a GPU they differ
    by rounding.

    Args:
        model: where to start.
        train, test: images with labels; samples labelled -1 are left out.
        epochs: of the training, its learning rate lowered to 0 along a cosine.
        fraction: share of each class's labelled train samples to train on, at least one; the smaller share is
            part of the larger.
        batch_size: samples an update.
        learning_rate, weight_decay: of SGD.
        projector: put a fresh projector of the model's shape between the encoder and the linear layer.
        rectify: a map before the linear layer, which makes it non-negative cross entropy. On an encoder that ends
            in relu, as ours do, relu without a projector changes nothing.
        rectify_weight: the linear layer's weight goes through relu, too.
        views: what is done to training images: by default a random resized crop and a mirror image.
        seed: of the choice of samples, their order and the views.
        device: where to compute; None is a CUDA device if there is one.
        progress: show a bar.

    Example:
        >>> from nonneg.modalities.images import open_source
        >>> from nonneg.models import ModelConfig
        >>> model = Model(ModelConfig("convnet_8", channels=1))
        >>> some = open_source("digits", "test").take(np.arange(100))
        >>> len(fine_tune(model, some, some, epochs=2, fraction=0.2).curve)
        2
    """
    name = "fine_tune"
    if not 0 < fraction <= 1:
        raise InputError(f"{name}: fraction is {fraction}, expected more than 0, at most 1")
    if rectify not in get_args(Rectify):
        raise InputError(f"{name}: rectify is {rectify!r}, expected one of {', '.join(get_args(Rectify))}")
    config = TrainConfig(
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        optimiser="sgd",
        lr=learning_rate,
        weight_decay=weight_decay,
        warmup_epochs=0,
        views=views,
    )
    trial = prepared(name, model, train, test, device)
    trial = replace(trial, rows=share_of_each_class(np.asarray(train.labels), trial.rows, fraction, seed))
    trial.model.train().requires_grad_(True)
    head = _head(trial.model, trial.classes, projector, rectify, rectify_weight, seed).to(trial.device)

    def logits(views: Tensor) -> Tensor:
        out: Tensor = head(trial.codes(views, "encoder"))
        return out

    @torch.no_grad()
    def told() -> Tensor:
        codes, labels = trial.test_codes("encoder")
        hits: Tensor = head.eval()(codes).argmax(1) == labels
        head.train()
        return hits

    parameters = [*trial.model.encoder.parameters(), *head.parameters()]
    curve, hits = fit(name, trial, logits, parameters, told, config, progress)
    return FineTuned(curve[-1], curve, len(trial.rows), hits)


class _NonNegativeLinear(nn.Linear):
    """A linear layer whose weight goes through relu. It begins small and positive: relu has no gradient at 0."""

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.weight, 0, 1 / self.in_features)
        nn.init.zeros_(self.bias)

    def forward(self, z: Tensor) -> Tensor:
        return F.linear(z, F.relu(self.weight), self.bias)


def _head(
    model: Model, classes: int, projector: bool, rectify: Rectify, rectify_weight: bool, seed: int
) -> nn.Sequential:
    device = next(model.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        if projector:
            config = replace(model.config, rectify=rectify, top_k=0)
            below: nn.Module = projector_of(config, model.encoder_width)
        else:
            below = nn.Identity() if rectify == "none" else NonNegative(rectify)
        width = model.config.features if projector else model.encoder_width
        linear = _NonNegativeLinear(width, classes) if rectify_weight else linear_head(width, classes)
    return nn.Sequential(below, linear)


def share_of_each_class(
    labels: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], fraction: float, seed: int
) -> npt.NDArray[np.int64]:
    """Some of these rows, in order: of each class the share, at least one, chosen by chance.

    Example:
        >>> labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
        >>> labels[share_of_each_class(labels, np.arange(10), 0.5, seed=0)]
        array([0, 0, 1, 1, 1])
    """
    rng = np.random.default_rng(seed)
    members = [rng.permutation(rows[labels[rows] == label]) for label in np.unique(labels[rows])]
    return np.sort(np.concatenate([some[: max(1, round(fraction * len(some)))] for some in members]))
