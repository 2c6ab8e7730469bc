"""Multinomial logistic regression with scikit-learn's objective, on any device."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

_GRADIENT = 1e-6  # per sample; the fit ends below it
_MOST_STEPS, _MOST_INNER_STEPS = 100, 250


@dataclass(frozen=True)
class Logistic:
    """A fitted model: weights `(classes, features)` and intercepts `(classes,)`, for standardised features."""

    weight: Tensor
    intercept: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Return logits `(samples, classes)` of features `(samples, features)`."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.intercept)

    def predict(self, x: Tensor) -> Tensor:
        """Return the predicted classes `(samples,)` of features `(samples, features)`."""
        return self.logits(x).argmax(1)


def fit_logistic(x: Tensor, y: Tensor, classes: int, C: float) -> Logistic:
    """Minimise C · Σ cross-entropy + ½‖weight‖² in float64, to a gradient of 1e-6 per sample.

    Args:
        x: `(samples, features)`, standardised.
        y: `(samples,)` int64, 0 to classes − 1.
        classes: number of classes.
        C: inverse regularisation strength.

    Example:
        >>> x = torch.tensor([[-1.0], [1.0], [2.0]])
        >>> fit_logistic(x, torch.tensor([0, 1, 1]), classes=2, C=1.0).predict(x)
        tensor([0, 1, 1])
    """
    return next(fit_strengths(x, y, classes, [C]))


def fit_strengths(x: Tensor, y: Tensor, classes: int, strengths: Iterable[float]) -> Iterator[Logistic]:
    """Yield the result of `fit_logistic` for one C after the other; each fit starts from the previous result.

    Newton's method with conjugate gradients. scikit-learn's solvers run only on the CPU, and torch's L-BFGS takes a
    thousand steps if features are correlated, as those of networks are.
    """
    x = x.double()
    # Along the principal axes the Hessian is nearly diagonal, so that a diagonal preconditioner works well.
    spread, axes = torch.linalg.eigh(x.T @ x / len(x))
    x = F.pad(x @ axes, (0, 1), value=1.0)  # the last column is the intercept, which is not penalised
    spread = F.pad(spread.clamp(min=0), (0, 1), value=1.0)
    w = torch.zeros(classes, x.shape[1], dtype=x.dtype, device=x.device)
    for C in strengths:
        penalty = F.pad(torch.full_like(spread[:-1], 1 / (C * len(x))), (0, 1))
        w = _minimum(x, y, spread, penalty, w)
        yield Logistic(w[:, :-1] @ axes.T, w[:, -1])


def _minimum(x: Tensor, y: Tensor, spread: Tensor, penalty: Tensor, w: Tensor) -> Tensor:
    """Return weights `(classes, features + 1)` for `x` along its principal axes, starting from `w`."""

    def objective(w: Tensor) -> Tensor:
        return F.cross_entropy(x @ w.T, y) + 0.5 * (penalty * w.square()).sum()

    # The direction needs less precision than the stopping rule: products with the Hessian are taken in float32.
    low_precision = x.float()
    value = objective(w)
    for _ in range(_MOST_STEPS):
        share = (x @ w.T).softmax(1)
        error = share.clone()
        error[torch.arange(len(y), device=y.device), y] -= 1
        gradient = error.T @ x / len(x) + penalty * w
        if float(gradient.abs().max()) <= _GRADIENT:
            break
        curvature = (share * (1 - share)).mean() * spread + penalty + torch.finfo(x.dtype).eps
        step = _conjugate_gradients(
            partial(_hessian_product, low_precision, share.float(), penalty), -gradient, curvature
        )
        w, value, moved = _line_search(objective, w, value, step, gradient)
        if not moved:  # only rounding is left
            break
    return w


def _hessian_product(x: Tensor, share: Tensor, penalty: Tensor, v: Tensor) -> Tensor:
    """Return the product of the Hessian with `v`, `(classes, features)`."""
    along = x @ v.to(x.dtype).T
    change = share * (along - (share * along).sum(1, keepdim=True))
    return (change.T @ x / len(x)).to(v.dtype) + penalty * v


def _conjugate_gradients(product: Callable[[Tensor], Tensor], b: Tensor, diagonal: Tensor) -> Tensor:
    """Solve `product(solution) = b` with a diagonal preconditioner; more exactly near the minimum, where b is small."""
    solution, residual = torch.zeros_like(b), b.clone()
    scaled = residual / diagonal
    direction, along = scaled, (residual * scaled).sum()
    tolerance = float(b.norm()) * min(0.3, float(b.norm()) ** 0.5)
    for _ in range(_MOST_INNER_STEPS):
        image = product(direction)
        length = along / (direction * image).sum()
        solution = solution + length * direction
        residual = residual - length * image
        if float(residual.norm()) <= tolerance:
            break
        scaled = residual / diagonal
        along, before = (residual * scaled).sum(), along
        direction = scaled + along / before * direction
    return solution


def _line_search(
    objective: Callable[[Tensor], Tensor], w: Tensor, value: Tensor, step: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, bool]:
    """Take the step, or half of it, a quarter, …, until the objective falls; returns whether it did."""
    slope, share = (step * gradient).sum(), 1.0
    while share > 1e-8:
        there = w + share * step
        found = objective(there)
        if bool(found <= value + 1e-4 * share * slope):
            return there, found, True
        share /= 2
    return w, value, False
