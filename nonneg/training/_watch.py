"""What is watched while training goes: sums over an epoch, and a probe that learns beside the model."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.metrics import EPSILON

_SUMS = ("loss", "correct", "active", "active_of_class", "steps", "views", "labelled")
_PROBE = ("weight", "bias", "weight_velocity", "bias_velocity")
# The probe sees vectors of this length, for which so large a step with momentum is still a stable one.
_LENGTH, _STEP, _MOMENTUM = 4.0, 0.2, 0.9
MOST_CLASSES = 10_000  # of a probe that should not take longer than the training it watches


class Watch:
    """Figures of an epoch, added up on the device: nothing waits until they are read.

    With labels, a linear probe learns them from the encoder's output by logistic regression, step by
    step. It sends nothing back: the model is the same with and without it. Its accuracy is taken
    before it learns from a batch, on views it has not seen. With 0 classes there is no probe.

    Attributes:
        loss: sum over steps.
        correct: answers of the probe that were right, over views.
        active: `(features,)`, on how many views a feature was active.
        active_of_class: `(classes, features)`, the same of the views of each class.
        steps, views, labelled: how many went in, and how many of the views had a label.
        weight, bias: of the probe.
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
        """All there is to save."""
        return {name: getattr(self, name) for name in _SUMS + _PROBE}

    def clear(self) -> None:
        """Begin an epoch; the probe keeps what it has learnt."""
        for name in _SUMS:
            getattr(self, name).zero_()

    def reduce(self, group: dist.ProcessGroup | None) -> None:
        """Every process gets the sums of all."""
        if group is not None:
            for name in _SUMS:
                dist.all_reduce(getattr(self, name), group=group)

    @torch.no_grad()
    def see(
        self, loss: Tensor, h: Tensor, z: Tensor, labels: Tensor | None, group: dist.ProcessGroup | None = None
    ) -> None:
        """Add a step.

        Args:
            loss: its loss.
            h: `(views, encoder_width)`, the encoder's output.
            z: `(views, features)`.
            labels: `(views,)`, -1 for unlabelled, or None.
            group: the processes that train together.
        """
        z = z.to(self.active.dtype)
        active = (z.abs() > EPSILON * torch.linalg.vector_norm(z, dim=1, keepdim=True)).to(z.dtype)
        self.active.add_(active.sum(0))
        if labels is not None and self.classes:
            of_class = labels[:, None] == torch.arange(self.classes, device=labels.device)
            self.active_of_class.add_(of_class.to(z.dtype).T @ active)
            self._teach(h.to(self.weight.dtype), of_class, labels, group)
        self.loss.add_(loss)
        self.steps.add_(1)
        self.views.add_(len(z))

    def _teach(self, h: Tensor, of_class: Tensor, labels: Tensor, group: dist.ProcessGroup | None) -> None:
        x = _LENGTH * F.normalize(h, dim=1)
        logits = torch.addmm(self.bias, x, self.weight.T)
        self.correct.add_((logits.argmax(1) == labels).sum())
        # The gradient of the mean cross entropy, by hand: it needs no graph, and so can run beside the model's own.
        labelled = (labels >= 0).to(x.dtype)
        self.labelled.add_(labelled.sum())
        error = (logits.softmax(1) - of_class.to(x.dtype)) * labelled[:, None] / labelled.sum().clamp(min=1)
        slopes = (error.T @ x, error.sum(0))
        if group is not None:
            for slope in slopes:
                dist.all_reduce(slope, group=group)
                slope /= group.size()
        for value, velocity, slope in zip(
            (self.weight, self.bias), (self.weight_velocity, self.bias_velocity), slopes, strict=True
        ):
            velocity.mul_(_MOMENTUM).add_(slope)
            value.sub_(_STEP * velocity)

    def figures(self) -> dict[str, float]:
        """Read, once an epoch: the one place that waits for the device."""
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
