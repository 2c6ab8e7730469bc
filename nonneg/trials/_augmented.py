"""The linear probe as papers report it: a linear layer trained on cropped and mirrored images."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.modalities.images import ViewConfig
from nonneg.models import Layer, Model
from nonneg.training import TrainConfig
from nonneg.trials._labelled_training import CROP_AND_FLIP, fit, linear_head, prepared


@dataclass(frozen=True)
class AugmentedProbe:
    """Accuracy on the test images at the end, and after each epoch; the last epoch counts, not the best.

    Attributes:
        hits: `(labelled samples,)` booleans: which of them it told right.
    """

    accuracy: float
    curve: tuple[float, ...]
    hits: npt.NDArray[np.bool_] = field(compare=False, repr=False)


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
    views: ViewConfig = CROP_AND_FLIP,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool = False,
) -> AugmentedProbe:
    """A linear layer on the frozen model, trained by SGD on a new random view of every sample in each epoch.

    The model is in evaluation mode throughout and stays as it was. Unlike `linear_probe`, which finds the very
    minimum on standardised features of the plain images, this depends on the learning rate and on the scale of
    the features: where layers or models differ in that, `standardise`, or it is the scale that is compared.

    Args:
        model: what is probed.
        train, test: images with labels; samples labelled -1 are left out.
        layer: encoder or projector.
        epochs: of the training, its learning rate lowered to 0 along a cosine.
        batch_size: samples an update.
        learning_rate: of SGD with momentum 0.9, without weight decay.
        standardise: put a batch norm without weights between the features and the linear layer; papers do not.
        views: what is done to training images: by default a random resized crop and a mirror image.
        seed: of the order and the views.
        device: where to compute; None is a CUDA device if there is one.
        progress: show a bar.

    Example:
        >>> from nonneg.modalities.images import open_source
        >>> from nonneg.models import ModelConfig
        >>> model = Model(ModelConfig("convnet_8", channels=1))
        >>> some = open_source("digits", "test").take(np.arange(100))
        >>> len(augmented_probe(model, some, some, epochs=2).curve)
        2
    """
    name = "augmented_probe"
    if layer not in ("encoder", "projector"):
        raise InputError(f"{name}: layer is {layer!r}, expected encoder or projector")
    config = TrainConfig(
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        optimiser="sgd",
        lr=learning_rate,
        weight_decay=0.0,
        warmup_epochs=0,
        views=views,
    )
    trial = prepared(name, model, train, test, device)
    trial.model.eval()
    codes, labels = trial.test_codes(layer)
    width = codes.shape[1]
    scaled = nn.BatchNorm1d(width, affine=False, device=trial.device) if standardise else nn.Identity()
    head = nn.Sequential(scaled, linear_head(width, trial.classes)).to(trial.device)

    @torch.no_grad()
    def frozen(views: Tensor) -> Tensor:
        return trial.codes(views, layer)

    @torch.no_grad()
    def told() -> Tensor:
        hits: Tensor = head.eval()(codes).argmax(1) == labels
        head.train()
        return hits

    curve, hits = fit(name, trial, head, head.parameters(), told, config, progress, frozen)
    return AugmentedProbe(curve[-1], curve, hits)
