"""One step: views, features, loss, gradient, update; run plainly, with its forward pass compiled, or as one graph."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg import losses
from nonneg.errors import InputError
from nonneg.modalities.images import random_views
from nonneg.models import Model
from nonneg.training._compile import compiled
from nonneg.training._optimisers import LARS, set_learning_rate
from nonneg.training._recorded import Recorded
from nonneg.training._watch import Watch
from nonneg.training.config import TrainConfig

_AUTOCAST = {"bf16-mixed": torch.bfloat16}


class Batch(NamedTuple):
    """Samples of one step on this device: images `(batch, height, width, channels)` uint8, numbers, labels."""

    images: Tensor
    samples: Tensor
    labels: Tensor | None


class Seen(NamedTuple):
    """What came of a batch: the loss, the encoder's output and the features of its views, and their labels."""

    loss: Tensor
    h: Tensor
    z: Tensor
    labels: Tensor | None


class Step:
    """Updates the model on a batch. `path` says how: off, forward or graph.

    Args:
        fabric: devices, and gradients over processes.
        model: what is trained.
        optimiser: of its parameters.
        watch: where the figures of the epoch add up.
        config: of the run.
        path: off, forward or graph.
    """

    def __init__(
        self, fabric: Any, model: Model, optimiser: Optimizer, watch: Watch, config: TrainConfig, path: str
    ) -> None:
        self.fabric, self.model, self.watch, self.config = fabric, model, watch, config
        self.group = dist.group.WORLD if fabric.world_size > 1 else None
        self.views_per_sample = 1 if config.loss == "cross_entropy" else 2
        self.epoch = torch.zeros((), dtype=torch.int64, device=fabric.device)
        self.mean, self.std = (torch.tensor(v, device=fabric.device)[:, None, None] for v in (config.mean, config.std))
        self.last_features: Tensor | None = None
        layers = _Layers(model)
        self.layers, self.optimiser = fabric.setup(_wrapped(layers, path), optimiser)
        self._run: Callable[[Batch], None] = _Graph(self, layers) if path == "graph" else self._in_parts

    def __call__(self, batch: Batch, epoch: int, lr: float) -> None:
        set_learning_rate(self.optimiser, lr)
        self.epoch.fill_(epoch)
        try:
            self._run(batch)
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"the device lacks memory for batch_size {self.config.batch_size}; lower that or raise accumulate"
            ) from error

    def forward(self, layers: nn.Module, batch: Batch) -> Seen:
        """From uint8 images to the loss."""
        config = self.config
        images = batch.images.permute(0, 3, 1, 2)
        if config.precision == "64-true":
            images = images.double() / 255
        views = random_views(images, batch.samples, config.views, config.seed, self.epoch, self.views_per_sample)
        if config.mean:
            views = (views - self.mean) / self.std
        if views.device.type == "cuda":
            views = views.contiguous(memory_format=torch.channels_last)
        labels = None if batch.labels is None else batch.labels.repeat(self.views_per_sample)
        half = _AUTOCAST.get(config.precision)
        with torch.autocast(views.device.type, half, enabled=half is not None):
            h, z = layers(views)
        return Seen(self._loss(z, labels), h.detach(), z.detach(), labels)

    def _loss(self, z: Tensor, labels: Tensor | None) -> Tensor:
        """Of features `(views, features)`: first views, then second ones."""
        config = self.config
        if config.loss in ("spectral", "info_nce"):
            z1, z2 = z.chunk(2)
            if config.loss == "spectral":
                return losses.spectral(z1, z2, group=self.group)
            return losses.info_nce(z1, z2, config.temperature, group=self.group)
        assert labels is not None  # refused before training began
        if config.loss == "sup_con":
            return losses.supervised.sup_con(z, labels, config.temperature, group=self.group)
        assert self.model.classifier is not None
        weight = self.model.classifier.weight
        return losses.supervised.cross_entropy(z, labels, weight, rectify_weight=config.rectify_weight)

    def _in_parts(self, batch: Batch) -> None:
        """The plain step, in as many parts as asked for."""
        parts = self.config.accumulate
        size = len(batch.samples) // parts
        self.optimiser.zero_grad()
        for i in range(parts):
            rows = slice(i * size, (i + 1) * size)
            part = Batch(*(None if whole is None else whole[rows] for whole in batch))  # type: ignore[arg-type]
            with self.fabric.no_backward_sync(self.layers, enabled=i + 1 < parts):
                seen = self.forward(self.layers, part)
                self.fabric.backward(seen.loss / parts)
            self.watch.see(seen.loss.detach(), *seen[1:], group=self.group)
        self.optimiser.step()
        self.last_features = seen.z


class _Layers(nn.Module):
    """The model as what is wrapped and compiled: images to both of its layers."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.model.forward_layers(images)


def _wrapped(layers: nn.Module, path: str) -> nn.Module:
    """Compiled as a module, which is what Fabric knows how to wrap for several processes."""
    return torch.compile(layers, dynamic=False) if path == "forward" else layers  # type: ignore[return-value]


class _Graph:
    """The whole step, compiled and recorded. The first ones are compiled but not recorded: steps like any other."""

    def __init__(self, step: Step, layers: nn.Module) -> None:
        self.step = step
        self.beside = torch.cuda.Stream()
        self.forward = compiled(lambda batch: step.forward(layers, batch))
        self.see = compiled(step.watch.see)
        if isinstance(step.optimiser.optimizer, LARS):  # torch's own are fused already
            step.optimiser.optimizer.compile()
        self.recorded = Recorded(self._all, step.fabric.device)

    def __call__(self, batch: Batch) -> None:
        try:
            self.recorded(*batch)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if self.recorded.graph is not None:
                raise
            reason = " ".join(str(error).split())[:300]
            raise InputError(
                f"compile: the step cannot run as one graph ({reason}); set compile to forward or off"
            ) from error

    def _all(self, images: Tensor, samples: Tensor, labels: Tensor | None) -> None:
        step = self.step
        step.optimiser.zero_grad()
        seen = self.forward(Batch(images, samples, labels))
        # Watching is many small kernels: on a stream of their own they run beside the large ones of the backward pass.
        self.beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.beside):
            self.see(seen.loss.detach(), *seen[1:])
        seen.loss.backward()
        step.optimiser.optimizer.step()
        torch.cuda.current_stream().wait_stream(self.beside)
        step.last_features = seen.z
