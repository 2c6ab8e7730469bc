"""Multinomial logistic regression with scikit-learn's objective, on any device."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

_GRADIENT = 1e-6  # at which the fit has ended, a sample
_MOST_STEPS, _MOST_INNER_STEPS = 100, 250


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


def fit_logistic(x: Tensor, y: Tensor, classes: int, C: float) -> Logistic:
    """The minimum of C · Σ cross entropy + ½‖weight‖², in float64, to a gradient of 1e-6 a sample.

    Args:
        x: `(samples, features)`, standardised.
        y: `(samples,)` int64, 0 to classes − 1.
        classes: how many there are.
        C: inverse strength of the regularisation.

    Example:
        >>> x = torch.tensor([[-1.0], [1.0], [2.0]])
        >>> fit_logistic(x, torch.tensor([0, 1, 1]), classes=2, C=1.0).predict(x)
        tensor([0, 1, 1])
    """
    return next(fit_strengths(x, y, classes, [C]))


def fit_strengths(x: Tensor, y: Tensor, classes: int, strengths: Iterable[float]) -> Iterator[Logistic]:
    """`fit_logistic` for one C after the other, each begun where the one before ended.

    Newton's method; its steps are solved for by conjugate gradients. scikit-learn's solvers run on the CPU alone, and
    torch's L-BFGS takes a thousand steps where features are correlated, as those of networks are.
    """
    x = x.double()
    # Along the axes of the samples' spread the curvature is nearly diagonal, so that it can be divided out.
    spread, axes = torch.linalg.eigh(x.T @ x / len(x))
    x = F.pad(x @ axes, (0, 1), value=1.0)  # the last column is the intercept's, which is not penalised
    spread = F.pad(spread.clamp(min=0), (0, 1), value=1.0)
    w = torch.zeros(classes, x.shape[1], dtype=x.dtype, device=x.device)
    for C in strengths:
        penalty = F.pad(torch.full_like(spread[:-1], 1 / (C * len(x))), (0, 1))
        w = _minimum(x, y, spread, penalty, w)
        yield Logistic(w[:, :-1] @ axes.T, w[:, -1])


def _minimum(x: Tensor, y: Tensor, spread: Tensor, penalty: Tensor, w: Tensor) -> Tensor:
    """Weights `(classes, features + 1)`, begun at `w`, of `x` along its axes."""

    def objective(w: Tensor) -> Tensor:
        return F.cross_entropy(x @ w.T, y) + 0.5 * (penalty * w.square()).sum()

    # Where to go needs less precision than when to stop: the curvature's many products take half the time in float32.
    light = x.float()
    value = objective(w)
    for _ in range(_MOST_STEPS):
        share = (x @ w.T).softmax(1)
        error = share.clone()
        error[torch.arange(len(y), device=y.device), y] -= 1
        gradient = error.T @ x / len(x) + penalty * w
        if float(gradient.abs().max()) <= _GRADIENT:
            break
        curvature = (share * (1 - share)).mean() * spread + penalty + torch.finfo(x.dtype).eps
        step = _solved(partial(_curved, light, share.float(), penalty), -gradient, curvature)
        w, value, moved = _descended(objective, w, value, step, gradient)
        if not moved:  # what is left is rounding
            break
    return w


def _curved(x: Tensor, share: Tensor, penalty: Tensor, v: Tensor) -> Tensor:
    """The second derivative's product with `v`, `(classes, features)`."""
    along = x @ v.to(x.dtype).T
    change = share * (along - (share * along).sum(1, keepdim=True))
    return (change.T @ x / len(x)).to(v.dtype) + penalty * v


def _solved(product: Callable[[Tensor], Tensor], b: Tensor, diagonal: Tensor) -> Tensor:
    """Conjugate gradients, begun at 0, with a diagonal preconditioner; the closer to the minimum, the more exact."""
    solution, rest = torch.zeros_like(b), b.clone()
    near = rest / diagonal
    direction, along = near, (rest * near).sum()
    enough = float(b.norm()) * min(0.3, float(b.norm()) ** 0.5)
    for _ in range(_MOST_INNER_STEPS):
        turned = product(direction)
        length = along / (direction * turned).sum()
        solution = solution + length * direction
        rest = rest - length * turned
        if float(rest.norm()) <= enough:
            break
        near = rest / diagonal
        along, before = (rest * near).sum(), along
        direction = near + along / before * direction
    return solution


def _descended(
    objective: Callable[[Tensor], Tensor], w: Tensor, value: Tensor, step: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, bool]:
    """As far along the step as the objective falls: all of it, or a half, a quarter, …"""
    slope, share = (step * gradient).sum(), 1.0
    while share > 1e-8:
        there = w + share * step
        found = objective(there)
        if bool(found <= value + 1e-4 * share * slope):
            return there, found, True
        share /= 2
    return w, value, False
