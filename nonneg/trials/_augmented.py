"""The linear probe that papers report: a linear layer trained by SGD on random views."""

from typing import Any

import torch
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities import Modality, Source
from nonneg.models import Layer, Model
from nonneg.trials._labelled_training import (
    LabelledResult,
    correctly_predicted,
    fit,
    labelled_config,
    linear_head,
    prepare_trial,
)


def augmented_probe(
    model: Model,
    train: Source,
    test: Source,
    *,
    layer: Layer = "encoder",
    epochs: int = 50,
    batch_size: int = 256,
    learning_rate: float = 0.1,
    standardise: bool = False,
    views: Modality | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool = False,
) -> LabelledResult:
    """Train a linear layer on the frozen model by SGD, on a new random view of every sample in each epoch.

    The model is in evaluation mode and is not changed. Unlike `linear_probe`, the result depends on the learning rate
    and on the scale of the features; set `standardise` to compare features of different scales.

    Args:
        model: what is probed.
        train, test: samples with labels; unlabelled samples are left out.
        layer: encoder or projector.
        epochs: number of epochs; the learning rate falls to 0 along a cosine.
        batch_size: samples per update.
        learning_rate: of SGD with momentum 0.9, without weight decay.
        standardise: put a batch norm without weights below the linear layer; papers do not.
        views: a modality that draws the views of training samples; by default the model's own with its lighter views,
            which are resized crops and horizontal flips for images.
        seed: decides the order of the samples and their views.
        device: where to compute; None is a CUDA device if there is one.
        progress: show a progress bar.

    Example:
        >>> from nonneg.modalities.images import Images, open_source
        >>> from nonneg.models import ModelConfig
        >>> some = open_source("digits", "test").take(range(100))
        >>> len(augmented_probe(Model(ModelConfig("convnet_8", Images(channels=1))), some, some, epochs=2).curve)
        2
    """
    if layer not in ("encoder", "projector"):
        raise InputError(f"augmented_probe: layer is {layer!r}, expected encoder or projector")
    config = labelled_config(
        model, views, seed=seed, epochs=epochs, batch_size=batch_size, lr=learning_rate, weight_decay=0.0
    )
    trial = prepare_trial("augmented_probe", model, train, test, config, device)
    trial.model.eval()
    codes, labels = trial.test_codes(layer)
    width = codes.shape[1]
    scaled = nn.BatchNorm1d(width, affine=False, device=trial.device) if standardise else nn.Identity()
    head = nn.Sequential(scaled, linear_head(width, trial.classes)).to(trial.device)

    @torch.no_grad()
    def frozen(views: Any) -> Tensor:
        return trial.codes(views, layer)

    return fit(trial, head, head.parameters(), lambda: correctly_predicted(head, codes, labels), progress, frozen)
