"""Figures that are monitored during training: sums over an epoch, and a linear probe trained beside the model."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.codes import active

_SUMS = ("loss", "correct", "active", "active_of_class", "steps", "views", "labelled")
_PROBE = ("weight", "bias", "weight_velocity", "bias_velocity")
# The probe's inputs are scaled to this length, for which a step this large with momentum is still stable.
_LENGTH, _STEP, _MOMENTUM = 4.0, 0.2, 0.9
MOST_CLASSES = 10_000  # with more, the probe would take longer than the training it monitors


class Watch:
    """Figures of an epoch, summed on the device: nothing waits for it until they are read.

    With labels, a linear probe is trained on the encoder's output by logistic regression, step by step. No gradient
    flows back: the model is the same with and without it. Its accuracy is measured before it is updated on a batch,
    so on views it has not seen. With 0 classes there is no probe.

    Attributes:
        loss: sum over steps.
        correct: number of views that the probe predicted correctly.
        active: `(features,)`, number of views on which each feature was active.
        active_of_class: `(classes, features)`, the same for the views of each class.
        steps, views, labelled: number of steps, of views, and of views with a label.
        weight, bias: the probe's parameters.
    """

    def __init__(
        self, encoder_width: int, features: int, classes: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.classes = classes
        numbers = torch.zeros(5, device=device, dtype=dtype)
        self.loss, self.correct, self.steps, self.views, self.labelled = numbers.unbind()
        self.active = torch.zeros(features, device=device)
        self.active_of_class = torch.zeros(classes, features, device=device)
        self.weight, self.weight_velocity = torch.zeros(2, classes, encoder_width, device=device, dtype=dtype).unbind()
        self.bias, self.bias_velocity = torch.zeros(2, classes, device=device, dtype=dtype).unbind()

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that a checkpoint must hold."""
        return {name: getattr(self, name) for name in _SUMS + _PROBE}

    def clear(self) -> None:
        """Start an epoch; the probe keeps its weights."""
        for name in _SUMS:
            getattr(self, name).zero_()

    def reduce(self, group: dist.ProcessGroup | None) -> None:
        """Give every process the sums over all processes."""
        if group is not None:
            for name in _SUMS:
                dist.all_reduce(getattr(self, name), group=group)

    @torch.no_grad()
    def update(
        self, loss: Tensor, h: Tensor, z: Tensor, labels: Tensor | None, group: dist.ProcessGroup | None = None
    ) -> None:
        """Add a step.

        Args:
            loss: the step's loss.
            h: `(views, encoder_width)`, the encoder's output.
            z: `(views, features)`, the features.
            labels: `(views,)`, -1 for unlabelled views, or None.
            group: the processes that train together.
        """
        is_active = active(z).to(self.active.dtype)
        self.active.add_(is_active.sum(0))
        if labels is not None and self.classes:
            of_class = labels[:, None] == torch.arange(self.classes, device=labels.device)
            self.active_of_class.add_(of_class.to(is_active.dtype).T @ is_active)
            self._update_probe(h.to(self.weight.dtype), of_class, labels, group)
        self.loss.add_(loss)
        self.steps.add_(1)
        self.views.add_(len(z))

    def _update_probe(self, h: Tensor, of_class: Tensor, labels: Tensor, group: dist.ProcessGroup | None) -> None:
        x = _LENGTH * F.normalize(h, dim=1)
        logits = torch.addmm(self.bias, x, self.weight.T)
        self.correct.add_((logits.argmax(1) == labels).sum())
        # The gradient of the mean cross entropy, by hand: without autograd it can run beside the model's own.
        labelled = (labels >= 0).to(x.dtype)
        self.labelled.add_(labelled.sum())
        error = (logits.softmax(1) - of_class.to(x.dtype)) * labelled[:, None]
        sums = (error.T @ x, error.sum(0), labelled.sum())
        if group is not None:  # processes may have different numbers of labelled views
            for part in sums:
                dist.all_reduce(part, group=group)
        count = sums[2].clamp(min=1)
        for value, velocity, slope in zip(
            (self.weight, self.bias), (self.weight_velocity, self.bias_velocity), sums[:2], strict=True
        ):
            velocity.mul_(_MOMENTUM).add_(slope / count)
            value.sub_(_STEP * velocity)

    def figures(self) -> dict[str, float]:
        """Return the figures of the epoch; this is the only method that waits for the device."""
        sums = torch.stack((self.loss, self.correct, self.steps, self.views, self.labelled))
        loss, correct, steps, views, labelled = sums.tolist()
        active = self.active.cpu()
        live = active > 0
        figures = {
            "loss": loss / steps,
            "sparsity": 1 - float(active.double().sum()) / (views * len(active)),
            "live": int(live.sum()),
            "dead": int((~live).sum()),
        }
        if labelled:
            of_class = self.active_of_class.cpu()
            total = of_class.sum(0)
            known = total > 0
            figures["probe"] = correct / labelled
            figures["class_consistency"] = (
                float((of_class.amax(0)[known] / total[known]).mean()) if known.any() else 0.0
            )
        return figures
