"""What is watched while training goes: sums over an epoch, and a probe that learns beside the model."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from nonneg.metrics import EPSILON

_SUMS = ("loss", "correct", "active", "steps", "views")
_PROBE = ("weight", "bias", "weight_velocity", "bias_velocity")
# The probe sees vectors of this length, for which so large a step with momentum is still a stable one.
_LENGTH, _STEP, _MOMENTUM = 4.0, 0.2, 0.9


class Watch:
    """Figures of an epoch, added up on the device: nothing waits until they are read.

    With labels, a linear probe learns them from the encoder's output by logistic regression, step by
    step. It sends nothing back: the model is the same with and without it. Its accuracy is taken
    before it learns from a batch, on views it has not seen.

    Attributes:
        loss: sum over steps.
        correct: answers of the probe that were right, over views.
        active: `(classes, features)`, on how many views of a class a feature was active; one class
            without labels.
        steps, views: how many went in.
        weight, bias: of the probe.
    """

    def __init__(
        self, encoder_width: int, features: int, classes: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.classes = classes
        self.loss, self.correct, self.steps, self.views = torch.zeros(4, device=device, dtype=dtype).unbind()
        self.active = torch.zeros(max(classes, 1), features, device=device)
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
        if labels is None:
            self.active.add_(active.sum(0))
        else:
            of_class = labels[:, None] == torch.arange(self.classes, device=labels.device)
            self.active.add_(of_class.to(z.dtype).T @ active)
            self._teach(h.to(self.weight.dtype), of_class, labels, group)
        self.loss.add_(loss)
        self.steps.add_(1)
        self.views.add_(len(z))

    def _teach(self, h: Tensor, of_class: Tensor, labels: Tensor, group: dist.ProcessGroup | None) -> None:
        x = _LENGTH * F.normalize(h, dim=1)
        logits = torch.addmm(self.bias, x, self.weight.T)
        self.correct.add_((logits.argmax(1) == labels).sum())
        # The gradient of the mean cross entropy, by hand: it needs no graph, and so can run beside the model's own.
        error = (logits.softmax(1) - of_class.to(x.dtype)) * (labels >= 0)[:, None] / len(x)
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
        loss, correct, steps, views = torch.stack((self.loss, self.correct, self.steps, self.views)).tolist()
        active = self.active.cpu()
        total = active.sum(0)
        live = total > 0
        figures = {
            "loss": loss / steps,
            "sparsity": 1 - float(total.double().sum()) / (views * len(total)),
            "live": int(live.sum()),
            "dead": int((~live).sum()),
        }
        if self.classes:
            figures["probe"] = correct / views
            figures["class_consistency"] = float((active.amax(0)[live] / total[live]).mean()) if live.any() else 0.0
        return figures
