"""Training with labels on random views: the part that the augmented probe and fine-tuning share."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.labels import is_labelled
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
_SMALL_SIDE = 64  # larger images keep a GPU busy while the host launches the next step
CROP_AND_FLIP = ViewConfig(crop_least=0.08, flip_p=0.5)


@dataclass(frozen=True, eq=False)
class Trial:
    """A model that is trained with labels, and the samples it is trained and evaluated on.

    Attributes:
        name: the function that error messages and the progress bar name.
        model: a copy of the given model, on the device.
        train, test: samples with labels.
        rows: `(samples,)` int64, the rows of `train` to train on.
        classes: number of classes; labels are below it.
        config: views, epochs, batch size, optimiser and seed.
        device: where to compute.
        precision: "bf16-mixed" on a GPU.
        is_recordable: whether a step can be replayed as a CUDA graph, which saves hundreds of kernel launches.
    """

    name: str
    model: Model
    train: Source
    test: Source
    rows: npt.NDArray[np.int64]
    classes: int
    config: TrainConfig
    device: torch.device
    precision: Precision
    is_recordable: bool

    def codes(self, views: Tensor, layer: Layer) -> Tensor:
        """Return codes `(batch, width)` in float32 of views `(batch, channels, height, width)` from 0 to 1."""
        views = self.model.standardised(views)
        if self.device.type == "cuda":
            views = views.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16-mixed"):
            codes: Tensor = self.model(views, layer)
        return codes.float()

    def test_codes(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """Return codes `(samples, width)` of the unchanged, labelled test samples, and their labels."""
        images, labels = _as_trained(self.test.images, self.model), np.asarray(self.test.labels)
        batches = embed_rows(
            self.model, images, range(len(images)), (layer,), device=self.device, precision=self.precision
        )
        codes = torch.cat([torch.from_numpy(batch.layers[layer]).to(self.device) for batch in batches])
        known = torch.from_numpy(is_labelled(labels)).to(self.device)
        return codes[known], torch.from_numpy(labels).to(self.device)[known]


def labelled_config(
    epochs: int, batch_size: int, learning_rate: float, weight_decay: float, views: ViewConfig, seed: int
) -> TrainConfig:
    """Return a config of SGD with momentum 0.9, without warm-up; the learning rate falls to 0 along a cosine."""
    return TrainConfig(
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        optimiser="sgd",
        lr=learning_rate,
        weight_decay=weight_decay,
        warmup_epochs=0,
        views=views,
    )


def prepare_trial(
    name: str, model: Model, train: Source, test: Source, config: TrainConfig, device: str | torch.device | None
) -> Trial:
    """Check the samples and copy the model to the device."""
    for which, source in (("train", train), ("test", test)):
        if source.labels is None or not is_labelled(source.labels).any():
            raise InputError(f"{name}: the {which} samples have no labels")
        if source.images.shape[3] != model.config.channels:
            found, expected = source.images.shape[3], model.config.channels
            raise InputError(f"{name}: the {which} images have {found} channels, the model expects {expected}")
    if train.label_names and test.label_names and train.label_names != test.label_names:
        raise InputError(f"{name}: train and test have different label names, expected the same classes")
    labels = np.asarray(train.labels)
    rows = np.flatnonzero(is_labelled(labels))
    if len(np.unique(labels[rows])) < 2:
        raise InputError(f"{name}: all labelled train samples have one class, expected at least 2 classes")
    place = choose_device(device)
    own = copy.deepcopy(model).to(place)
    on_gpu = place.type == "cuda"
    if on_gpu:
        own.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    # A graph keeps its memory while test samples are embedded, and other libraries' networks may wait for the device.
    is_small = max(train.images.shape[1:3]) <= _SMALL_SIDE
    is_recordable = on_gpu and is_small and ":" not in model.config.encoder
    precision: Precision = "bf16-mixed" if on_gpu else "32-true"
    train = replace(train, images=np.asanyarray(train.images))  # lazy images are read now
    return Trial(name, own, train, test, rows, int(labels.max()) + 1, config, place, precision, is_recordable)


def fit(
    trial: Trial,
    logits: Callable[[Tensor], Tensor],
    parameters: Iterable[Tensor],
    correct: Callable[[], Tensor],
    progress: bool,
    frozen: Callable[[Tensor], Tensor] = lambda views: views,
) -> tuple[tuple[float, ...], npt.NDArray[np.bool_]]:
    """Minimise the cross-entropy with the optimiser of the trial's config.

    Args:
        trial: the samples.
        logits: maps views `(batch, channels, height, width)` from 0 to 1, or what `frozen` returns for them, to
            `(batch, classes)`.
        parameters: what is trained.
        correct: returns which test samples `(samples,)` are predicted correctly; called after each epoch.
        progress: show a progress bar.
        frozen: layers below `logits` that are not trained.

    Returns:
        The accuracy after each epoch, and which test samples are predicted correctly at the end.
    """
    config, device = trial.config, trial.device
    optimiser, total = optimiser_of(parameters, config, device), torch.zeros((), device=device)

    def step(inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(logits(inputs), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total.add_(loss.detach())

    update = Recorded(step, device) if trial.is_recordable else step
    batches = _Batches(trial, frozen)
    curve, done = [], 0
    # Dropout draws from the config's seed; the caller's random numbers are not touched.
    with torch.random.fork_rng([device] if device.type == "cuda" else []), progress_bar(progress) as bar:
        task = bar.add_task(trial.name, total=config.epochs)
        torch.manual_seed(config.seed)
        for epoch in range(config.epochs):
            total.zero_()
            for inputs, labels in batches.of(epoch):
                set_learning_rate(optimiser, learning_rate(config, done, config.epochs * batches.per_epoch, warmup=0))
                update(inputs, labels)
                done += 1
            mean_loss = float(total) / batches.per_epoch
            if not math.isfinite(mean_loss):
                raise InputError(f"{trial.name}: the loss is {mean_loss} in epoch {epoch + 1}; lower learning_rate")
            hits = correct()
            curve.append(float(hits.double().mean()))
            bar.update(task, completed=epoch + 1, description=f"{trial.name}: accuracy {curve[-1]:.1%}")
    del update  # frees the graph's memory now: a reference in torch may keep this frame alive
    return tuple(curve), hits.cpu().numpy()


class _Batches:
    """Batches of random views. A last, smaller batch is left out, unless it is the only one."""

    def __init__(self, trial: Trial, frozen: Callable[[Tensor], Tensor]) -> None:
        self.config, self.frozen, self.rows = trial.config, frozen, torch.from_numpy(trial.rows)
        self.size = min(self.config.batch_size, len(self.rows))
        self.per_epoch = len(self.rows) // self.size
        self.feed = open_feed(trial.train, self.config, trial.device)
        self.views = replace(self.config.views, size=self.config.views.size or trial.model.config.image_size)
        # A GPU finishes the views of a small batch before the host has launched the next ones: it gets many batches at
        # once. The views are the same, because they depend only on the sample's number.
        _, height, width, channels = trial.train.images.shape
        values = self.size * channels * (self.views.size**2 or height * width)
        self.together = max(1, _VALUES_AT_A_TIME // int(values)) if trial.device.type == "cuda" else 1

    def of(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the inputs and labels of each step of an epoch."""
        order = self.rows[epoch_order(len(self.rows), self.config.seed, epoch)][: self.per_epoch * self.size]
        coming = self.feed.batches(order.view(self.per_epoch, self.size))
        while batches := list(islice(coming, self.together)):
            images = torch.cat([batch.images for batch in batches]).permute(0, 3, 1, 2)
            samples = torch.cat([batch.samples for batch in batches])
            views = self.frozen(random_views(images, samples, self.views, self.config.seed, epoch, views=1))
            for batch, inputs in zip(batches, views.split(self.size), strict=True):
                assert batch.labels is not None  # checked in prepare_trial
                yield inputs, batch.labels


def linear_head(width: int, classes: int) -> nn.Linear:
    """Return a linear layer of zeros, which at first sends no gradient to the layers below."""
    head: nn.Linear = nn.utils.skip_init(nn.Linear, width, classes)  # draws no random numbers
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


@torch.no_grad()
def correctly_predicted(head: nn.Module, codes: Tensor, labels: Tensor) -> Tensor:
    """Return which samples `(samples,)` a head predicts correctly; the head is in training mode afterwards."""
    hits: Tensor = head.eval()(codes).argmax(1) == labels
    head.train()
    return hits


def _as_trained(images: npt.NDArray[np.uint8], model: Model) -> npt.NDArray[np.uint8]:
    """Return the centre of images that were resized so that views could be cut out of them; others unchanged."""
    side = model.config.image_size
    height, width = images.shape[1:3]
    if not (side and model.config.resize) or min(height, width) < side or (height, width) == (side, side):
        return images
    top, left = (height - side) // 2, (width - side) // 2
    return images[:, top : top + side, left : left + side]
