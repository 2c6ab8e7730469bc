"""Fine-tuning: the accuracy of the encoder after all of its weights are trained with labels."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities import Modality, Source
from nonneg.models import Model, projector_of
from nonneg.rectify import NonNegative
from nonneg.trials._labelled_training import (
    LabelledResult,
    correctly_predicted,
    fit,
    labelled_config,
    linear_head,
    prepare_trial,
)

Rectify = Literal["none", "relu", "rep_relu", "softplus", "sigmoid", "exp"]


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
    views: Modality | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool = False,
) -> LabelledResult:
    """Train a copy of the encoder and a new linear layer with labels, by SGD with momentum 0.9.

    The given model is not changed. A seed gives the same result every time on a CPU; on a GPU it differs by rounding.

    Args:
        model: the model to start from.
        train, test, epochs, batch_size, learning_rate, views, device, progress: as for `augmented_probe`.
        fraction: share of the labelled train samples of each class, at least one; a smaller share is a subset.
        weight_decay: of SGD.
        projector: put a new projector of the model's shape between the encoder and the linear layer.
        rectify: the rectifier before the linear layer, as in non-negative cross-entropy. Without a projector, relu
            changes nothing if the encoder ends in relu, as ours do.
        rectify_weight: apply relu to the weight of the linear layer, too.
        seed: decides which samples are used, their order and their views.

    Example:
        >>> from nonneg.modalities.images import Images, open_source
        >>> from nonneg.models import ModelConfig
        >>> some = open_source("digits", "test").take(np.arange(100))
        >>> model = Model(ModelConfig("convnet_8", Images(channels=1)))
        >>> len(fine_tune(model, some, some, epochs=2, fraction=0.2).curve)
        2
    """
    if not 0 < fraction <= 1:
        raise InputError(f"fine_tune: fraction is {fraction}, expected more than 0, at most 1")
    if rectify not in get_args(Rectify):
        raise InputError(f"fine_tune: rectify is {rectify!r}, expected one of {', '.join(get_args(Rectify))}")
    config = labelled_config(
        model, views, seed=seed, epochs=epochs, batch_size=batch_size, lr=learning_rate, weight_decay=weight_decay
    )
    trial = prepare_trial("fine_tune", model, train, test, config, device)
    trial = replace(trial, rows=share_of_each_class(np.asarray(train.labels), trial.rows, fraction, seed))
    encoder = trial.model.requires_grad_(True).train().encoder
    head = _head(trial.model, trial.classes, projector, rectify, rectify_weight, seed).to(trial.device)
    return fit(
        trial,
        lambda views: head(trial.codes(views, "encoder")),
        [*encoder.parameters(), *head.parameters()],
        lambda: correctly_predicted(head, *trial.test_codes("encoder")),
        progress,
    )


class _NonNegativeLinear(nn.Linear):
    """A linear layer that applies relu to its weight, which starts small and positive: relu has no gradient at 0."""

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
    """Return a random share of the rows of each class, at least one, in ascending order.

    Example:
        >>> labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
        >>> labels[share_of_each_class(labels, np.arange(10), 0.5, seed=0)]
        array([0, 0, 1, 1, 1])
    """
    rng = np.random.default_rng(seed)
    members = [rng.permutation(rows[labels[rows] == label]) for label in np.unique(labels[rows])]
    return np.sort(np.concatenate([some[: max(1, round(fraction * len(some)))] for some in members]))
