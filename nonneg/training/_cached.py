"""A step whose memory does not grow with the batch: gradients of the encoder's output are kept, not its activations."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.training._feed import Batch
from nonneg.training._recorded import compiled

if TYPE_CHECKING:
    from nonneg.training._step import Outcome, Step


class Cached:
    """Update the model on a batch of which a part at a time goes through the encoder (gradient caching).

    The encoder runs on each part and only its output is kept. The projector and the loss see the whole batch and give
    the gradient of that output. The encoder then runs on each part again, now with this gradient. The update is that of
    the whole batch at once, except that batch norm in an encoder, and the standardised sides of pairs, are normalised
    within each part.
    """

    def __init__(self, step: "Step", path: str) -> None:
        self.step, self.device = step, step.fabric.device
        is_compiled = path == "forward"
        self.encode: Callable[..., Tensor] = compiled(step.encode) if is_compiled else step.encode
        self.after: Callable[..., Outcome] = compiled(step.after_encoder) if is_compiled else step.after_encoder
        self.has_gradient = any(parameter.requires_grad for parameter in step.model.encoder.parameters())

    def __call__(self, batch: Batch) -> None:
        step = self.step
        rows, samples = step.config.encode_rows, len(batch.samples)
        parts = [batch.part(slice(start, start + rows)) for start in range(0, samples, rows)]
        step.optimiser.zero_grad()
        states, outputs = [], []
        for part in parts:
            states.append(self._random_state())
            # With a gradient that is dropped: the second pass must run the same code, to draw the same dropout.
            outputs.append(self._encoded(part).detach())
        h = _joined(outputs, step.views_per_sample).requires_grad_(self.has_gradient)
        outcome = self.after(h, batch)
        step.fabric.backward(outcome.loss)
        if h.grad is not None:
            running = [buffer.clone() for buffer in step.model.encoder.buffers()]
            gradients = _split(h.grad, [len(part.samples) for part in parts], step.views_per_sample)
            for part, state, gradient in zip(parts, states, gradients, strict=True):
                self._set_random_state(state)
                self._encoded(part).backward(gradient)
            for buffer, value in zip(step.model.encoder.buffers(), running, strict=True):
                buffer.copy_(value)  # running statistics have counted this batch already
        self._average_gradients()
        step.watch.update(outcome.loss.detach(), *outcome[1:], group=step.group)
        step.optimiser.step()
        step.bound_temperatures()
        step.last_features = outcome.z

    def _encoded(self, part: Batch) -> Tensor:
        return self.encode(self.step.views(part))

    def _average_gradients(self) -> None:
        """Do what DDP does for modules that are called through it."""
        if self.step.group is not None:
            for parameter in self.step.plain_layers.parameters():
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad, group=self.step.group)
                    parameter.grad /= self.step.group.size()

    def _random_state(self) -> Tensor:
        on_gpu = self.device.type == "cuda"
        return torch.cuda.get_rng_state(self.device) if on_gpu else torch.get_rng_state()

    def _set_random_state(self, state: Tensor) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)


def _joined(outputs: list[Tensor], views: int) -> Tensor:
    """Join outputs of parts, `(views x samples, width)` each: first views of all samples, then second ones."""
    return torch.cat([output.unflatten(0, (views, -1)) for output in outputs], 1).flatten(0, 1)


def _split(joined: Tensor, samples: list[int], views: int) -> list[Tensor]:
    """Undo `_joined` for parts of so many samples."""
    return [part.flatten(0, 1) for part in joined.unflatten(0, (views, -1)).split(samples, 1)]
