"""One step: views, features, loss, gradient, update; run eagerly, with its forward pass compiled, or as one graph."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg import losses
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities import Shared, Source, arrays_of, as_tensors, map_arrays
from nonneg.models import Model
from nonneg.rectify import NonNegative, Standardise
from nonneg.training._cached import Cached
from nonneg.training._feed import Batch
from nonneg.training._optimisers import LARS, set_learning_rate
from nonneg.training._recorded import Recorded, compiled
from nonneg.training._watch import Watch
from nonneg.training.config import LEARNED_TEMPERATURES, TrainConfig

_AUTOCAST = {"bf16-mixed": torch.bfloat16}
_STATES = 4  # numbers per parameter: its value, its gradient, up to two of the optimiser
RECORDED = ("graph", "record")
"""Paths on which the whole step is one CUDA graph."""
_WIDTHS = {
    "64-true": 2.0,
    "32-true": 1.0,
    "tf32": 1.0,
    "bf16-mixed": 0.5,
}  # of the numbers in a step, relative


class Outcome(NamedTuple):
    """The loss of a batch, the encoder's output and the features of its views, and the views' labels."""

    loss: Tensor
    h: Tensor
    z: Tensor
    labels: Tensor | None


class Step:
    """Update the model on a batch.

    Args:
        fabric: Lightning's devices and processes.
        model: the model to train.
        optimiser: the optimiser of its parameters.
        watch: accumulates the figures of the epoch.
        config: the config of the run.
        path: "off", "forward" (the forward pass is compiled), "record" (the step is replayed as one graph) or "graph"
            (compiled and replayed).
    """

    def __init__(
        self, fabric: Any, model: Model, optimiser: Optimizer, watch: Watch, config: TrainConfig, path: str
    ) -> None:
        self.fabric, self.model, self.watch, self.config = fabric, model, watch, config
        self.group = dist.group.WORLD if fabric.world_size > 1 else None
        self.views_per_sample = views_per_sample(config)
        self.epoch = torch.zeros((), dtype=torch.int64, device=fabric.device)
        self.dtype = torch.float64 if config.precision == "64-true" else torch.float32
        self.last_features: Tensor | None = None
        model.modality.to(fabric.device)
        self.dense_weight = torch.zeros((), dtype=self.dtype, device=fabric.device)
        self.target: Tensor | None = None  # the share of samples on which features are to be active
        for layer in model.modules():
            if isinstance(layer, NonNegative | Standardise):
                layer.group = self.group
            if isinstance(layer, NonNegative) and layer.share is not None:
                self.target = layer.target
        self.plain_layers = layers = Layers(model, config)
        self.log_temperatures = layers.log_temperatures
        if self.log_temperatures is not None:
            optimiser.add_param_group({"params": [self.log_temperatures], "weight_decay": 0.0})
        # Compiled as a module: Fabric can wrap modules for several processes.
        wrapped: Any = torch.compile(layers, dynamic=False) if path == "forward" else layers
        self.layers, self.optimiser = fabric.setup(wrapped, optimiser)
        self._run: Callable[[Batch], None] = self._run_eagerly
        if path in RECORDED:
            self._run = _Graph(self, compiles=path == "graph")
        elif config.encode_rows:
            self._run = Cached(self, path)

    def __call__(self, batch: Batch, epoch: int, lr: float, share: float, dense_weight: float) -> None:
        set_learning_rate(self.optimiser, lr)
        self.dense_weight.fill_(dense_weight)
        if self.target is not None:
            self.target.fill_(share)
        self.epoch.fill_(epoch)
        try:
            self._run(batch)
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"out of memory with batch_size {self.config.batch_size}; {self.config.modality.savings}"
            ) from error

    def forward(self, layers: nn.Module, batch: Batch) -> Outcome:
        """Compute the loss of a batch of samples."""
        views = self.views(batch)
        with self.autocast():
            outputs = layers(views)
        return self._outcome(batch, *outputs)

    def encode(self, views: Any) -> Tensor:
        """Compute the encoder's output for views, without synchronising processes."""
        with self.autocast():
            return self.model(views, "encoder")  # type: ignore[no-any-return]

    def after_encoder(self, h: Tensor, batch: Batch) -> Outcome:
        """Compute the loss of a batch from the encoder's output for its views, without synchronising processes."""
        with self.autocast():
            outputs = self.plain_layers.after_encoder(h)
        return self._outcome(batch, h, *outputs)

    def views(self, batch: Batch) -> Any:
        """Draw the views of a batch of samples."""
        seed, count = self.config.seed, self.views_per_sample
        return self.model.modality.draw_views(batch.content, batch.samples, seed, self.epoch, count, self.dtype)

    def autocast(self) -> torch.autocast:
        """Return the context in which the network runs."""
        half = _AUTOCAST.get(self.config.precision)
        return torch.autocast(self.fabric.device.type, half, enabled=half is not None)

    def _outcome(
        self,
        batch: Batch,
        h: Tensor,
        dense: Tensor,
        z: Tensor,
        head: Tensor | None,
        temperatures: tuple[float | Tensor, float | Tensor],
    ) -> Outcome:
        config = self.config
        labels = None if batch.labels is None else batch.labels.repeat(self.views_per_sample)
        related = self.model.modality.related(batch.content)
        after, before = temperatures
        loss = self._loss(z, labels, head, after, related)
        if config.first_dense_weight or config.dense_weight:
            dense_loss = self._loss(dense, labels, head, before, related)
            loss = torch.lerp(loss, dense_loss, self.dense_weight.to(loss.dtype))
        return Outcome(loss, h.detach(), z.detach(), labels)

    def _loss(
        self,
        z: Tensor,
        labels: Tensor | None,
        head: Tensor | None,
        temperature: float | Tensor,
        related: Tensor | None,
    ) -> Tensor:
        """Compute the loss of features `(views, features)`: first views of all samples, then second views."""
        config, group = self.config, self.group
        # Chunks are computed twice, which one chunk is not worth.
        chunk_rows = config.chunk_rows if 0 < config.chunk_rows < len(z) else None
        if config.loss == "cross_entropy":
            assert labels is not None and head is not None  # checked before training began
            return losses.supervised.cross_entropy(z, labels, head, rectify_weight=False)
        if config.loss == "sup_con":
            assert labels is not None
            return losses.supervised.sup_con(z, labels, temperature, group=group, chunk_rows=chunk_rows)
        z1, z2 = z.chunk(2)
        if self.model.modality.sides:
            return self._loss_of_sides(z1, z2, temperature, chunk_rows, related)
        if config.loss == "info_nce":
            return losses.info_nce(z1, z2, temperature, group=group, chunk_rows=chunk_rows, related=related)
        if config.loss == "spectral":
            return losses.spectral(z1, z2, group, related)
        return getattr(losses, config.loss)(z1, z2, group=group)  # type: ignore[no-any-return]

    def _loss_of_sides(
        self, first: Tensor, second: Tensor, temperature: float | Tensor, chunk_rows: int | None, related: Tensor | None
    ) -> Tensor:
        """Compare the two sides of pairs and, with `within_weight`, also two views of each side."""

        def loss(a: Tensor, b: Tensor) -> Tensor:
            if self.config.loss == "info_nce":
                return losses.multimodal.info_nce(a, b, temperature, self.group, chunk_rows, related)
            return losses.multimodal.spectral(a, b, self.group, related)

        if not self.config.within_weight:
            return loss(first, second)
        (a1, a2), (b1, b2) = first.chunk(2), second.chunk(2)
        between = (loss(a1, b1) + loss(a2, b2)) / 2
        return torch.lerp(between, (loss(a1, a2) + loss(b1, b2)) / 2, self.config.within_weight)

    def _run_eagerly(self, batch: Batch) -> None:
        """Run the step in as many parts as `accumulate` says."""
        parts = self.config.accumulate
        size = len(batch.samples) // parts
        self.optimiser.zero_grad()
        for i in range(parts):
            part = batch.part(slice(i * size, (i + 1) * size))
            with self.fabric.no_backward_sync(self.layers, enabled=i + 1 < parts):
                outcome = self.forward(self.layers, part)
                self.fabric.backward(outcome.loss / parts)
            self.watch.update(outcome.loss.detach(), *outcome[1:], group=self.group)
        self.optimiser.step()
        self.bound_temperatures()
        self.last_features = outcome.z

    @torch.no_grad()
    def bound_temperatures(self) -> None:
        """Keep learned temperatures within their bounds after an update."""
        if self.log_temperatures is not None:
            self.log_temperatures.clamp_(*map(math.log, LEARNED_TEMPERATURES))

    def temperatures(self) -> dict[str, float]:
        """Return the learned temperatures by the names of the settings they started from; waits for the device."""
        if self.log_temperatures is None:
            return {}
        found = self.log_temperatures.detach().exp().tolist()
        return dict(zip(("temperature", "dense_temperature"), found, strict=False))


def views_per_sample(config: TrainConfig) -> int:
    """Return 2 for losses that compare views, 1 for cross entropy, and 4 for pairs with two views of each side."""
    if config.within_weight:
        return 4
    return 1 if config.loss == "cross_entropy" else 2


def step_bytes(network: Model, source: Source, config: TrainConfig, processes: int) -> int:
    """Return roughly how many bytes a step takes on one process: weights, and what is kept for the gradient.

    A copy of the network runs on the meta device, which computes shapes but no numbers; where these are needed, the
    modality estimates what the encoder keeps.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    one = as_tensors(source.samples[[0]])
    samples = config.batch_size // processes // config.accumulate
    at_a_time = min(samples, config.encode_rows or samples)
    held = network.modality.encoder_bytes(source, at_a_time, views_per_sample(config), config.encoder)
    views = at_a_time * views_per_sample(config)
    views //= max(1, len(network.modality.sides))  # the encoder's input then holds all sides
    try:
        shadow = copy.deepcopy(network).to("meta")
        batch = map_arrays(lambda part: part.to("meta").expand(views, *part.shape[1:]), one)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            if held is None:
                inputs = network.modality.inputs(batch)
                _graph = shadow.forward_layers(inputs)  # keeps the tensors until all are counted
            else:
                _graph = shadow.project_all(torch.empty(views, network.encoder_width, device="meta"))
    except Exception:  # a module of the caller may need numbers, or cannot be copied: only its weights are known
        kept = {}
    weights = sum(parameter.nbytes for parameter in network.parameters())
    return round(_STATES * weights + _WIDTHS[config.precision] * (sum(kept.values()) + (held or 0)))


class Layers(nn.Module):
    """The model as it is wrapped and compiled: from views to all layers, the classifier's weight if it has one, and
    the temperatures after and before the rectifier.

    Everything that needs a gradient must go through this forward pass: several processes synchronise nothing else.
    """

    def __init__(self, model: Model, config: TrainConfig) -> None:
        super().__init__()
        self.model = model
        given = [config.temperature, config.dense_temperature]
        self.given: tuple[float, float] = (given[0], given[1])
        self.log_temperatures: nn.Parameter | None = None
        if config.learn_temperature:
            # The second one only if it is used: several processes wait for the gradient of every parameter.
            is_dense = config.dense_weight or config.first_dense_weight
            logs = [math.log(temperature) for temperature in (given if is_dense else given[:1])]
            self.log_temperatures = nn.Parameter(next(model.parameters()).new_tensor(logs))

    def forward(self, views: Any) -> tuple[Any, ...]:
        h = self.model(views, "encoder")
        return h, *self.after_encoder(h)

    def after_encoder(self, h: Tensor) -> tuple[Any, ...]:
        """Return all but the encoder's output, from that output."""
        head = None if self.model.classifier is None else self.model.head()
        learned = None if self.log_temperatures is None else self.log_temperatures.exp()
        return *self.model.project_all(h), head, self.given if learned is None else (learned[0], learned[-1])


class _Graph:
    """The whole step, recorded, and before that compiled if asked to; the first few steps are not yet recorded."""

    def __init__(self, step: Step, compiles: bool) -> None:
        self.step = step
        self.watch_stream = torch.cuda.Stream()
        self.forward: Callable[[Batch], Outcome] = lambda batch: step.forward(step.plain_layers, batch)
        self.update_watch: Callable[..., None] = step.watch.update
        if compiles:
            self.forward, self.update_watch = compiled(self.forward), compiled(self.update_watch)
        if compiles and isinstance(step.optimiser.optimizer, LARS):  # torch's own optimisers are fused already
            step.optimiser.optimizer.compile()
        self.recorded = Recorded(self._whole_step, step.fabric.device)
        self.batch: Batch | None = None

    def __call__(self, batch: Batch) -> None:
        self.batch = self.batch or batch  # keeps the structure: a recording takes a plain list of tensors
        try:
            varying = (part for part in arrays_of(batch.content) if not isinstance(part, Shared))
            self.recorded(*varying, batch.samples, batch.labels)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if self.recorded.graph is not None:
                raise
            raise InputError(
                f"compile: the step cannot run as one graph ({one_line(error)}); set compile to forward or off"
            ) from error

    def _whole_step(self, *tensors: Tensor | None) -> None:
        step = self.step
        *content, samples, labels = tensors
        assert self.batch is not None and samples is not None
        remaining = iter(content)
        filled = map_arrays(lambda part: part if isinstance(part, Shared) else next(remaining), self.batch.content)
        batch = Batch(filled, samples, labels)
        step.optimiser.zero_grad()
        outcome = self.forward(batch)
        # The figures take many small kernels: on their own stream they run beside the large ones of the backward pass.
        self.watch_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.watch_stream):
            self.update_watch(outcome.loss.detach(), *outcome[1:])
        outcome.loss.backward()
        step.optimiser.optimizer.step()
        step.bound_temperatures()
        torch.cuda.current_stream().wait_stream(self.watch_stream)
        step.last_features = outcome.z
