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
    """Yield the result of `fit_logistic` for one C after the other; each fit starts from the previous result."""
    for weight, intercept in fit_problems(x[None], y[None], classes, strengths):
        yield Logistic(weight[0], intercept[0])


def fit_problems(x: Tensor, y: Tensor, classes: int, strengths: Iterable[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Do the same for several problems of one size at once, which keeps a GPU busy.

    Newton's method with conjugate gradients. scikit-learn's solvers run only on the CPU, and torch's L-BFGS takes a
    thousand steps if features are correlated, as those of networks are.

    Args:
        x: `(problems, samples, features)`.
        y: `(problems, samples)`, 0 to classes − 1.
        classes: number of classes.
        strengths: values of C.

    Yields:
        Weights `(problems, classes, features)` and intercepts `(problems, classes)` for each C.
    """
    x = x.double()
    problems, samples, _ = x.shape
    # Along the principal axes the Hessian is nearly diagonal, so that a diagonal preconditioner works well.
    rows = x.flatten(0, 1)
    axes = torch.linalg.eigh(rows.T @ rows / len(rows))[1]
    x = F.pad(x @ axes, (0, 1), value=1.0)  # the last column is the intercept, which is not penalised
    w = x.new_zeros(problems, classes, x.shape[2])
    for C in strengths:
        penalty = F.pad(x.new_full((x.shape[2] - 1,), 1 / (C * samples)), (0, 1))
        w = _minimum(x, y, penalty, w)
        yield w[..., :-1] @ axes.T, w[..., -1]


def _minimum(x: Tensor, y: Tensor, penalty: Tensor, w: Tensor) -> Tensor:
    """Return weights `(problems, classes, features + 1)` for `x` along its principal axes, starting from `w`."""
    samples, is_class = x.shape[1], F.one_hot(y, w.shape[1]).to(x.dtype)

    def objective(w: Tensor) -> Tensor:
        likelihood = ((x @ w.mT).log_softmax(2) * is_class).sum((1, 2), keepdim=True) / samples
        return 0.5 * _inner(penalty * w, w) - likelihood

    # The direction needs less precision than the stopping rule: products with the Hessian are taken in float32.
    low_precision, spread = x.float(), x.square().mean(1, keepdim=True)
    value, unfinished = objective(w), torch.ones_like(w[:, :1, :1], dtype=torch.bool)
    for _ in range(_MOST_STEPS):
        share = (x @ w.mT).softmax(2)
        gradient = (share - is_class).mT @ x / samples + penalty * w
        unfinished &= gradient.abs().amax((1, 2), keepdim=True) > _GRADIENT
        if not unfinished.any():
            break
        curvature = (share * (1 - share)).mean((1, 2), keepdim=True) * spread + penalty + torch.finfo(x.dtype).eps
        product = partial(_hessian_product, low_precision, share.float(), penalty)
        step = _conjugate_gradients(product, -gradient * unfinished, curvature)
        w, value, moved = _line_search(objective, w, value, step, gradient)
        unfinished &= moved  # otherwise only rounding is left
    return w


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner products `(problems, 1, 1)`."""
    return (a * b).sum((1, 2), keepdim=True)


def _hessian_product(x: Tensor, share: Tensor, penalty: Tensor, v: Tensor) -> Tensor:
    """Return the product of the Hessian with `v`, `(problems, classes, features)`."""
    along = x @ v.to(x.dtype).mT
    change = share * (along - (share * along).sum(2, keepdim=True))
    return (change.mT @ x / x.shape[1]).to(v.dtype) + penalty * v


def _conjugate_gradients(product: Callable[[Tensor], Tensor], b: Tensor, diagonal: Tensor) -> Tensor:
    """Solve `product(solution) = b` with a diagonal preconditioner; more exactly near the minimum, where b is small.

    Where b is 0, so is the solution.
    """
    solution, residual = torch.zeros_like(b), b
    scaled = residual / diagonal
    direction, along = scaled, _inner(residual, scaled)
    size = _inner(b, b).sqrt()
    tolerance = size * size.sqrt().clamp(max=0.3)
    for _ in range(_MOST_INNER_STEPS):
        unfinished = _inner(residual, residual).sqrt() > tolerance
        if not unfinished.any():
            break
        image = product(direction)
        length = torch.where(unfinished, along / _inner(direction, image), 0.0)
        solution = solution + length * direction
        residual = residual - length * image
        scaled = residual / diagonal
        along, before = _inner(residual, scaled), along
        direction = scaled + torch.where(unfinished, along / before, 0.0) * direction
    return solution


def _line_search(
    objective: Callable[[Tensor], Tensor], w: Tensor, value: Tensor, step: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the step, or half of it, a quarter, …, until the objective falls; returns where it did."""
    slope, share = _inner(step, gradient), torch.ones_like(value)
    while True:
        there = w + share * step
        found = objective(there)
        falls = found <= value + 1e-4 * share * slope
        if falls.all() or share.min() < 1e-8:
            return torch.where(falls, there, w), torch.where(falls, found, value), falls
        share = torch.where(falls, share, share / 2)
