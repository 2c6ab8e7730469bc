"""Training with labels on random views: the part that the augmented probe and fine-tuning share."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.labels import is_labelled
from nonneg.modalities import Modality, Shared, Source, arrays_of, map_arrays
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

_BYTES_AT_A_TIME = 2**24  # of samples whose views are drawn together on a GPU
_SMALL_SAMPLE = 2**14  # bytes; larger ones keep a GPU busy while the host launches the next step


@dataclass(frozen=True)
class LabelledResult:
    """The result of training with labels.

    Attributes:
        accuracy: on the labelled test samples after the last epoch, not the best one.
        curve: the accuracy after each epoch.
        samples: number of training samples.
        hits: `(labelled test samples,)` booleans: which of them are predicted correctly at the end.
    """

    accuracy: float
    curve: tuple[float, ...]
    samples: int
    hits: npt.NDArray[np.bool_] = field(compare=False, repr=False)


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

    def codes(self, views: Any, layer: Layer) -> Tensor:
        """Return codes `(batch, width)` in float32 of views, as the modality draws them."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16-mixed"):
            codes: Tensor = self.model(views, layer)
        return codes.float()

    def test_codes(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """Return codes `(samples, width)` of the unchanged, labelled test samples, and their labels."""
        labels, rows = np.asarray(self.test.labels), range(len(self.test))
        batches = embed_rows(self.model, self.test, rows, (layer,), device=self.device, precision=self.precision)
        codes = torch.cat([torch.from_numpy(batch.layers[layer]).to(self.device) for batch in batches])
        known = torch.from_numpy(is_labelled(labels)).to(self.device)
        return codes[known], torch.from_numpy(labels).to(self.device)[known]


def labelled_config(
    model: Model, views: Modality | None, *, seed: int, epochs: int, batch_size: int, lr: float, weight_decay: float
) -> TrainConfig:
    """Return a config of SGD with momentum 0.9, without warm-up; the learning rate falls to 0 along a cosine."""
    return TrainConfig(
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        optimiser="sgd",
        lr=lr,
        weight_decay=weight_decay,
        warmup_epochs=0,
        encoder=model.config.encoder,
        modality=model.modality.with_light_views() if views is None else views,
    )


def prepare_trial(
    name: str, model: Model, train: Source, test: Source, config: TrainConfig, device: str | torch.device | None
) -> Trial:
    """Check the samples and copy the model to the device."""
    for which, source in (("train", train), ("test", test)):
        if source.labels is None or not is_labelled(source.labels).any():
            raise InputError(f"{name}: the {which} samples have no labels")
    if train.label_names and test.label_names and train.label_names != test.label_names:
        raise InputError(f"{name}: train and test have different label names, expected the same classes")
    if any(isinstance(part, Shared) for part in arrays_of(train.samples[np.zeros(1, np.int64)])):
        raise InputError(f"{name}: the samples are parts of one graph, expected samples of their own")
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
    is_small = _sample_bytes(train) <= _SMALL_SAMPLE and not isinstance(train.samples[np.zeros(1, int)], dict | tuple)
    is_recordable = on_gpu and is_small and not config.has_foreign_encoder
    precision: Precision = "bf16-mixed" if on_gpu else "32-true"
    return Trial(name, own, train, test, rows, int(labels.max()) + 1, config, place, precision, is_recordable)


def fit(
    trial: Trial,
    logits: Callable[[Tensor], Tensor],
    parameters: Iterable[Tensor],
    correct: Callable[[], Tensor],
    progress: bool,
    frozen: Callable[[Tensor], Tensor] = lambda views: views,
) -> LabelledResult:
    """Minimise the cross-entropy with the optimiser of the trial's config.

    Args:
        trial: the samples.
        logits: maps views, or what `frozen` returns for them, to `(batch, classes)`.
        parameters: what is trained.
        correct: returns which test samples `(samples,)` are predicted correctly; called after each epoch.
        progress: show a progress bar.
        frozen: layers below `logits` that are not trained.
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
    return LabelledResult(curve[-1], tuple(curve), len(trial.rows), hits.cpu().numpy())


class _Batches:
    """Batches of random views. A last, smaller batch is left out, unless it is the only one."""

    def __init__(self, trial: Trial, frozen: Callable[[Tensor], Tensor]) -> None:
        self.config, self.frozen, self.rows = trial.config, frozen, torch.from_numpy(trial.rows)
        self.size = min(self.config.batch_size or len(self.rows), len(self.rows))
        self.per_epoch = len(self.rows) // self.size
        self.feed = open_feed(trial.train, self.config, trial.device, views=1)
        # A GPU finishes the views of a small batch before the host has launched the next ones: it gets many batches at
        # once. The views are the same, because they depend only on the sample's number.
        most = max(1, _BYTES_AT_A_TIME // (self.size * _sample_bytes(trial.train)))
        self.together = most if trial.device.type == "cuda" else 1
        self.config.modality.to(trial.device)

    def of(self, epoch: int) -> Iterator[tuple[Any, Tensor]]:
        """Yield the inputs and labels of each step of an epoch."""
        order = self.rows[epoch_order(len(self.rows), self.config.seed, epoch)][: self.per_epoch * self.size]
        coming = self.feed.batches(order.view(self.per_epoch, self.size), epoch)
        while batches := list(islice(coming, self.together)):
            parts = zip(*(arrays_of(batch.content) for batch in batches), strict=True)
            joined = iter([torch.cat(part) for part in parts])
            content = map_arrays(partial(next, joined), batches[0].content)
            samples = torch.cat([batch.samples for batch in batches])
            views = self.config.modality.draw_views(content, samples, self.config.seed, epoch, 1, torch.float32)
            inputs = self.frozen(views)
            for place, batch in enumerate(batches):
                assert batch.labels is not None  # checked in prepare_trial
                yield map_arrays(itemgetter(slice(place * self.size, (place + 1) * self.size)), inputs), batch.labels


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


def _sample_bytes(source: Source) -> int:
    return max(1, sum(int(part.nbytes) for part in arrays_of(source.samples[np.zeros(1, np.int64)])))
