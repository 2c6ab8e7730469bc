"""Training with labels on cropped and mirrored images: what the augmented probe and fine-tuning share."""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.modalities.images import ViewConfig, random_views
from nonneg.models import Layer, Model, Precision, embed_rows
from nonneg.progress import progress_bar
from nonneg.training import (
    Recorded,
    TrainConfig,
    epoch_order,
    learning_rate,
    open_feed,
    optimiser_of,
    set_learning_rate,
)

_VALUES_AT_A_TIME = 2**24  # of views on a GPU: 64 MB
_SMALL_SIDE = 64  # images of more pixels a side keep a GPU busy while the host launches what comes next
CROP_AND_FLIP = ViewConfig(crop_least=0.08, flip_p=0.5)


@dataclass(frozen=True, eq=False)
class Trial:
    """What is trained on what, and where.

    Attributes:
        model: a copy of the given one, on the device.
        train, test: samples with labels.
        rows: `(samples,)` int64, those of `train` to train on.
        classes: labels are below it.
        device: where to compute.
        precision: bf16-mixed on a GPU.
    """

    model: Model
    train: Source
    test: Source
    rows: npt.NDArray[np.int64]
    classes: int
    device: torch.device
    precision: Precision

    @property
    def is_recordable(self) -> bool:
        """Whether a step is to be a CUDA graph, which spares the host hundreds of small launches.

        With large images there is little to spare, and a graph holds on to its memory while test images are embedded.
        Networks that are not ours may wait for the device, which a graph cannot.
        """
        is_small = max(self.train.images.shape[1:3]) <= _SMALL_SIDE
        return self.device.type == "cuda" and is_small and ":" not in self.model.config.encoder

    def codes(self, views: Tensor, layer: Layer) -> Tensor:
        """`(batch, width)` float32 of views `(batch, channels, height, width)` in 0 to 1."""
        views = self.model.standardised(views)
        if self.device.type == "cuda":
            views = views.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16-mixed"):
            codes: Tensor = self.model(views, layer)
        return codes.float()

    def test_codes(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """Codes `(samples, width)` of the test images as they are, batch norm in evaluation mode, and their labels."""
        images, labels = _as_trained(self.test.images, self.model), _labels(self.test)
        batches = embed_rows(
            self.model, images, range(len(images)), (layer,), device=self.device, precision=self.precision
        )
        codes = torch.cat([torch.from_numpy(batch.layers[layer]).to(self.device) for batch in batches])
        has_label = torch.from_numpy(labels >= 0).to(self.device)
        return codes[has_label], torch.from_numpy(labels).to(self.device)[has_label]


def prepared(name: str, model: Model, train: Source, test: Source, device: str | torch.device | None) -> Trial:
    """The copy to work on; what cannot be learnt or tested is refused first."""
    for which, source in (("train", train), ("test", test)):
        if source.labels is None or not (source.labels >= 0).any():
            raise InputError(f"{name}: the {which} samples have no labels")
        if source.images.shape[3] != model.config.channels:
            found, expected = source.images.shape[3], model.config.channels
            raise InputError(f"{name}: the {which} images have {found} channels, the model expects {expected}")
    if train.label_names and test.label_names and train.label_names != test.label_names:
        raise InputError(f"{name}: train and test name their labels differently, expected the same classes")
    train = replace(train, images=np.asanyarray(train.images))  # those of a corrupted source are made here
    labels = _labels(train)
    rows = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[rows])) < 2:
        raise InputError(f"{name}: all labelled train samples are of one class, expected 2 classes or more")
    place = choose_device(device)
    own = copy.deepcopy(model).to(place)
    if place.type == "cuda":
        own.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    precision: Precision = "bf16-mixed" if place.type == "cuda" else "32-true"
    return Trial(own, train, test, rows, int(labels.max()) + 1, place, precision)


def fit(
    name: str,
    trial: Trial,
    logits: Callable[[Tensor], Tensor],
    parameters: Iterable[Tensor],
    told: Callable[[], Tensor],
    config: TrainConfig,
    progress: bool,
    frozen: Callable[[Tensor], Tensor] = lambda views: views,
) -> tuple[tuple[float, ...], npt.NDArray[np.bool_]]:
    """Cross entropy by the config's optimiser, its learning rate lowered along a cosine.

    Args:
        name: what refusals and the bar say.
        trial: the samples.
        logits: views `(batch, channels, height, width)` in 0 to 1, or what `frozen` makes of them, to
            `(batch, classes)`.
        parameters: what is trained.
        told: asked after each epoch: which of the test samples are told right, `(samples,)` booleans.
        config: views, epochs, batch size, optimiser and seed. A last, smaller batch is left out, unless it is
            the only one.
        progress: show a bar.
        frozen: what is done to views before, by layers that are not trained.

    Returns:
        The accuracies, one an epoch, and which samples are told right at the end.
    """
    device, rows = trial.device, torch.from_numpy(trial.rows)
    batch_size = min(config.batch_size, len(rows))
    per_epoch = len(rows) // batch_size
    views = replace(config.views, size=config.views.size or trial.model.config.image_size)
    together = _batches_together(trial, views, batch_size)
    optimiser, feed = optimiser_of(parameters, config, device), open_feed(trial.train, config, device)
    total = torch.zeros((), device=device)

    def step(inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(logits(inputs), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total.add_(loss.detach())

    update = Recorded(step, device) if trial.is_recordable else step
    curve, done = [], 0
    # A network may have dropout: its random numbers are the seed's, and the caller's go on as if nothing had been.
    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        progress_bar(progress) as bar,
    ):
        task = bar.add_task(name, total=config.epochs)
        torch.manual_seed(config.seed)
        for epoch in range(config.epochs):
            total.zero_()
            order = rows[epoch_order(len(rows), config.seed, epoch)][: per_epoch * batch_size]
            coming = feed.batches(order.view(per_epoch, batch_size))
            while batches := list(islice(coming, together)):
                images = torch.cat([batch.images for batch in batches]).permute(0, 3, 1, 2)
                samples = torch.cat([batch.samples for batch in batches])
                seen = frozen(random_views(images, samples, views, config.seed, epoch, views=1))
                for batch, inputs in zip(batches, seen.split(batch_size), strict=True):
                    lr = learning_rate(config, done, config.epochs * per_epoch, warmup=0)
                    set_learning_rate(optimiser, lr)
                    assert batch.labels is not None  # refused before
                    update(inputs, batch.labels)
                    done += 1
            mean_loss = float(total) / per_epoch
            if not math.isfinite(mean_loss):
                raise InputError(f"{name}: the loss became {mean_loss} in epoch {epoch + 1}; lower learning_rate")
            hits = told()
            curve.append(float(hits.double().mean()))
            bar.update(task, completed=epoch + 1, description=f"{name}: accuracy {curve[-1]:.1%}")
    del update  # and its memory: what torch imports on the way may keep this frame alive until the next collection
    return tuple(curve), hits.cpu().numpy()


def _batches_together(trial: Trial, views: ViewConfig, batch_size: int) -> int:
    """A GPU is done with the views of a small batch before the host has launched the next ones: it gets many at once.

    What comes out is the same, as a view follows from its sample's number.
    """
    if trial.device.type != "cuda":
        return 1
    _, height, width, channels = trial.train.images.shape
    values = batch_size * channels * (views.size**2 or height * width)
    return max(1, _VALUES_AT_A_TIME // int(values))


def linear_head(width: int, classes: int) -> nn.Linear:
    """A fresh one, all zeros: it begins without an opinion, and pulls at no layer below before it has one."""
    head: nn.Linear = nn.utils.skip_init(nn.Linear, width, classes)  # draws no random numbers
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def _labels(source: Source) -> npt.NDArray[np.int64]:
    assert source.labels is not None  # refused before
    return source.labels


def _as_trained(images: npt.NDArray[np.uint8], model: Model) -> npt.NDArray[np.uint8]:
    """The middle of images that were resized so that views could be cut out of them; others as they are."""
    side = model.config.image_size
    height, width = images.shape[1:3]
    if not (side and model.config.resize) or min(height, width) < side or (height, width) == (side, side):
        return images
    top, left = (height - side) // 2, (width - side) // 2
    return images[:, top : top + side, left : left + side]
