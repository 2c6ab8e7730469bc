"""`Standardise`: each feature to mean 0 and variance 1 over the batch, on all processes."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nonneg.gathering import sum_over_processes
from nonneg.rectify._non_negative import NonNegative

EPSILON = 1e-5
"""Added to variances before they divide."""
_MOMENTUM = 0.1


class Standardise(nn.Module):
    """Scale each feature to mean 0 and variance 1 over all views of the batch: batch norm without parameters.

    In training, the mean and variance are those of the batch; running averages replace them in evaluation, so that the
    first batches count as much as later ones and a short training is evaluated as it was trained. Unlike
    torch's synchronised batch norm, it also works on CPUs and in float64, where several processes give the result of
    one with the joint batch to rounding.

    Args:
        features: number of features.

    Attributes:
        group: the processes that share a batch; None for this process alone. Every process must pass the same number
            of rows.

    Shape:
        `(..., features)` to the same shape, in float32 (float64 for float64 input).

    Example:
        >>> standardise = Standardise(3)
        >>> z = standardise(torch.tensor([[1.0, 2.0, 0.0], [3.0, 6.0, 0.0]]))
        >>> z.round(decimals=3).tolist()
        [[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]
    """

    mean: Tensor
    variance: Tensor
    batches: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.group: dist.ProcessGroup | None = None
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(torch.promote_types(x.dtype, torch.float32))  # sums over a batch are too coarse in bf16
        if not self.training:
            return (x - self.mean) * (self.variance + EPSILON).rsqrt()
        rows = x.flatten(0, -2)
        count = len(rows) * (1 if self.group is None else self.group.size())
        mean = sum_over_processes(rows.sum(0), self.group) / count
        centred = x - mean
        variance = sum_over_processes(centred.flatten(0, -2).square().sum(0), self.group) / count
        with torch.no_grad():
            self.batches.add_(1)
            weight = self.batches.to(self.mean.dtype).reciprocal().clamp(min=_MOMENTUM)  # 1 for the first batch
            self.mean.lerp_(mean.to(self.mean.dtype), weight)
            self.variance.lerp_(variance.to(self.variance.dtype), weight)
        return centred * (variance + EPSILON).rsqrt()


@torch.no_grad()
def calibrate(standardise: Standardise, rectifier: NonNegative, z: Tensor) -> None:
    """Set the statistics and thresholds so that each feature is active on exactly its share of these samples.

    In training both follow batches of random views; this sets them for the samples themselves, as evaluation sees them.

    Args:
        standardise: scales the features.
        rectifier: follows it; has a share.
        z: `(samples, features)`, input of `standardise`.

    Example:
        >>> standardise, rectifier = Standardise(2), NonNegative("relu", share=0.25, features=2)
        >>> z = torch.tensor([[0.0, 9.0], [1.0, 7.0], [2.0, 8.0], [5.0, 6.0]])
        >>> calibrate(standardise, rectifier, z)
        >>> rectifier(standardise.eval()(z)).count_nonzero(dim=0)
        tensor([1, 1])
    """
    assert rectifier.share is not None
    z = z.to(standardise.mean.dtype)
    standardise.mean.copy_(z.mean(0))
    standardise.variance.copy_((z - standardise.mean).square().mean(0))
    scaled = (z - standardise.mean) * (standardise.variance + EPSILON).rsqrt()
    inactive = max(1, min(len(z) - 1, round((1 - rectifier.share) * len(z))))  # at least one sample is active
    rectifier.threshold.copy_(scaled.sort(0).values[inactive - 1])


def folded(projector: nn.Sequential) -> nn.Sequential:
    """Return a projector for inference with the same output: `Standardise` and the threshold of a share disappear.

    Both are affine in evaluation, so they become part of the linear layer before them.

    Args:
        projector: ends in a linear layer, then `Standardise`, then perhaps `NonNegative`; other projectors are
            returned unchanged.

    Example:
        >>> layers = nn.Linear(8, 4), Standardise(4), NonNegative("relu", share=0.1, features=4)
        >>> folded(nn.Sequential(*layers).eval())
        Sequential(
          (0): Linear(in_features=8, out_features=4, bias=True)
          (1): NonNegative(relu)
        )
    """
    layers = list(projector)
    rectifier = layers.pop() if layers and isinstance(layers[-1], NonNegative) else None
    standardise, linear = (layers[-1], layers[-2]) if len(layers) > 1 else (None, None)
    if not isinstance(standardise, Standardise) or not isinstance(linear, nn.Linear):
        return projector
    scale = (standardise.variance + EPSILON).rsqrt()
    shift = -standardise.mean * scale
    if isinstance(rectifier, NonNegative) and rectifier.share is not None:
        shift = shift - rectifier.threshold
        rectifier = NonNegative(rectifier.kind)
    merged = nn.Linear(linear.in_features, linear.out_features, device=linear.weight.device, dtype=linear.weight.dtype)
    with torch.no_grad():
        merged.weight.copy_(linear.weight * scale[:, None])
        merged.bias.copy_(shift if linear.bias is None else linear.bias * scale + shift)
    ends = [] if rectifier is None else [rectifier]
    return nn.Sequential(*layers[:-2], merged, *ends).train(projector.training)
