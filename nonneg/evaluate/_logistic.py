"""Multinomial logistic regression with scikit-learn's objective, on any device."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Logistic:
    """Weights `(classes, features)` and intercepts `(classes,)` for standardised features."""

    weight: Tensor
    intercept: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """`(samples, classes)` of `(samples, features)`."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.intercept)

    def predict(self, x: Tensor) -> Tensor:
        """`(samples,)` classes of `(samples, features)`."""
        return self.logits(x).argmax(1)


def fit_logistic(x: Tensor, y: Tensor, classes: int, C: float, start: Logistic | None = None) -> Logistic:
    """The minimum of C · Σ cross entropy + ½‖weight‖², by L-BFGS in float64, to a gradient of 1e-6 a sample.

    Args:
        x: `(samples, features)`, standardised.
        y: `(samples,)` int64, 0 to classes − 1.
        classes: how many there are.
        C: inverse strength of the regularisation.
        start: where to begin; the minimum is the same from anywhere.

    Example:
        >>> x = torch.tensor([[-1.0], [1.0], [2.0]])
        >>> fit_logistic(x, torch.tensor([0, 1, 1]), classes=2, C=1.0).predict(x)
        tensor([0, 1, 1])
    """
    x = x.double()
    weight = torch.zeros(classes, x.shape[1], dtype=x.dtype, device=x.device)
    intercept = torch.zeros(classes, dtype=x.dtype, device=x.device)
    if start is not None:
        weight, intercept = start.weight.clone(), start.intercept.clone()
    parameters = [weight.requires_grad_(), intercept.requires_grad_()]
    scale = 1 / (C * len(x))
    solver = torch.optim.LBFGS(
        parameters, max_iter=1000, tolerance_grad=1e-6, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(F.linear(x, weight, intercept), y) + 0.5 * scale * weight.square().sum()
        loss.backward()
        return loss

    solver.step(objective)
    return Logistic(weight.detach(), intercept.detach())
