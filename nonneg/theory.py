"""Numerical checks of the theorems of non-negative contrastive learning, on a small population.

Samples come from latent classes: P(x, x') = Σ_c P(c) P(x|c) P(x'|c). The population is small enough to compute all
expectations exactly, in float64.
"""

import itertools
import statistics
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from nonneg import losses, metrics
from nonneg.errors import InputError
from nonneg.rectify import NonNegative

# Random starts of the exact optimisation; steps and pairs per step of training.
_STARTS, _STEPS, _PAIRS = 20, 1500, 512


@dataclass(frozen=True)
class Population:
    """A distribution over samples that come from latent classes.

    Args:
        prior: `(classes,)`, P(c).
        given_class: `(samples, classes)`, P(x|c); columns sum to 1.

    Example:
        >>> coin = Population(torch.tensor([0.5, 0.5]).double(), torch.eye(2).double())
        >>> coin.optimum
        tensor([[1.4142, 0.0000],
                [0.0000, 1.4142]], dtype=torch.float64)
    """

    prior: Tensor
    given_class: Tensor

    def __post_init__(self) -> None:
        prior, given = self.prior.double(), self.given_class.double()
        if prior.dim() != 1 or given.dim() != 2 or given.shape[1] != len(prior):
            raise ValueError(
                f"Population: prior has shape {tuple(prior.shape)} and given_class {tuple(given.shape)},"
                " expected (classes,) and (samples, classes)"
            )
        sums, ones = given.sum(0), torch.ones_like(prior)
        for holds, message in (
            (torch.allclose(prior.sum(), prior.new_ones(()), atol=1e-6), "prior does not sum to 1"),
            (torch.allclose(sums, ones, atol=1e-6), "given_class does not sum to 1 over samples, for each class"),
            (bool((given >= 0).all()), "given_class is negative, expected at least 0"),
            (bool((prior > 0).all()), "a prior is 0 or negative, expected more than 0"),
            (bool((given.sum(1) > 0).all()), "a row of given_class is zero, expected at least one class per sample"),
        ):
            if not holds:
                raise ValueError(f"Population: {message}")
        object.__setattr__(self, "prior", prior / prior.sum())
        object.__setattr__(self, "given_class", given / given.sum(0))

    @staticmethod
    def drawn(classes: int, pure: int, mixed: int, seed: int = 0) -> "Population":
        """Draw a random population: `pure` samples per class, and `mixed` samples of two or more classes each."""
        generator = torch.Generator().manual_seed(seed)
        own = torch.eye(classes).repeat_interleave(pure, 0)
        shared = torch.zeros(mixed, classes)
        for row in shared:
            several = int(torch.randint(2, classes, (1,), generator=generator)) if classes > 2 else 2
            row[torch.randperm(classes, generator=generator)[:several]] = 1
        support = torch.cat((own, shared)).double()
        weight = support * (0.5 + torch.rand(support.shape, generator=generator, dtype=torch.float64))
        prior = 0.5 + torch.rand(classes, generator=generator, dtype=torch.float64)
        return Population(prior / prior.sum(), weight / weight.sum(0))

    @cached_property
    def joint(self) -> Tensor:
        """`(samples, samples)`: P(x, x'), the probability of two samples as a positive pair."""
        return (self.given_class * self.prior) @ self.given_class.T

    @cached_property
    def marginal(self) -> Tensor:
        """`(samples,)`: P(x)."""
        return self.given_class @ self.prior

    @cached_property
    def normalised(self) -> Tensor:
        """Ā = D^-½ P D^-½, the matrix that contrastive learning factorises."""
        return self.joint / (self.marginal[:, None] * self.marginal).sqrt()

    @cached_property
    def posterior(self) -> Tensor:
        """`(samples, classes)`: P(c|x)."""
        return self.given_class * self.prior / self.marginal[:, None]

    @cached_property
    def optimum(self) -> Tensor:
        """`(samples, classes)`: φ_c(x) = P(c|x) / √P(c), the non-negative features with the smallest loss."""
        return self.posterior / self.prior.sqrt()

    @property
    def least_loss(self) -> float:
        """The smallest possible loss, −‖Ā‖²."""
        return -float(self.normalised.square().sum())

    def loss(self, f: Tensor) -> Tensor:
        """Return the spectral loss of features `(samples, width)`, with exact expectations."""
        similar = f @ f.T
        independent = self.marginal[:, None] * self.marginal
        return -2 * (self.joint * similar).sum() + (independent * similar.square()).sum()

    def pairs(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw `n` positive pairs and return their sample indices."""
        cell = torch.multinomial(self.joint.flatten(), n, replacement=True, generator=generator)
        return cell // len(self.joint), cell % len(self.joint)


@dataclass(frozen=True)
class Check:
    """The result of checking one statement: it holds if `residual` is at most `bound`."""

    statement: str
    residual: float
    bound: float
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the residual is within its bound."""
        return self.residual <= self.bound


def check_all(seed: int = 0) -> list[Check]:
    """Check every statement numerically on a population drawn with this seed."""
    if not 0 <= seed < 2**32 - 10:
        raise InputError(f"seed is {seed}, expected 0 to {2**32 - 11}")
    population = Population.drawn(classes=4, pure=2, mixed=4, seed=seed)
    return [
        equivalence(population, seed),
        unbiased_estimate(seed),
        optimum(population),
        rotation(population, seed),
        sparsity(population),
        orthogonality(seed),
        energy(population, seed),
        uniqueness(population, seed),
        disagreement(population, seed),
        bayes_head(population, seed),
        multimodal(population, seed),
        training(population, seed),
        matrix_factorisation(population, seed),
    ]


def equivalence(population: Population, seed: int) -> Check:
    """Check theorem 1: the loss is the error of a non-negative factorisation, up to a constant."""
    f = torch.rand(len(population.marginal), 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    F = population.marginal.sqrt()[:, None] * f
    error = (population.normalised - F @ F.T).square().sum()
    residual = abs(float(error - population.loss(f)) + population.least_loss)
    return Check("the loss is NMF: ‖Ā − FFᵀ‖² = L(f) + ‖Ā‖²", residual, 1e-12)


def unbiased_estimate(seed: int) -> Check:
    """Check that the mean of `losses.spectral` over all batches of two pairs is the loss of the population."""
    small = Population.drawn(classes=2, pure=1, mixed=2, seed=seed)
    f = torch.rand(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    cells = list(itertools.product(range(4), repeat=2))
    mean = 0.0
    for (i, j), (k, m) in itertools.product(cells, repeat=2):
        chance = float(small.joint[i, j] * small.joint[k, m])
        mean += chance * float(losses.spectral(f[[i, k]], f[[j, m]]))
    residual = abs(mean - float(small.loss(f)))
    return Check("the batch loss is unbiased: E[spectral] = L(f)", residual, 1e-12, "all 256 batches of 2 pairs")


def optimum(population: Population) -> Check:
    """Check theorem 2: P(c|x)/√P(c) factorises Ā exactly and so has the smallest possible loss."""
    F = population.marginal.sqrt()[:, None] * population.optimum
    error = float((F @ F.T - population.normalised).abs().max())
    gap = abs(float(population.loss(population.optimum)) - population.least_loss)
    return Check("the optimum φ = P(c|x)/√P(c): FFᵀ = Ā, L(φ) = −‖Ā‖²", max(error, gap), 1e-12)


def rotation(population: Population, seed: int) -> Check:
    """Check that rotations of φ have the same loss (plain contrastive learning allows them) but negative entries."""
    generator = torch.Generator().manual_seed(seed)
    width = len(population.prior)
    worst, still_non_negative = 0.0, 0
    for _ in range(100):
        Q, _ = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))
        rotated = population.optimum @ Q
        worst = max(worst, abs(float(population.loss(rotated)) - population.least_loss))
        still_non_negative += bool((rotated >= 0).all())
    residual = worst if still_non_negative == 0 else float("inf")
    detail = f"{still_non_negative} of 100 rotations are non-negative"
    return Check("CL allows rotations: L(φR) = L(φ); NCL forbids them: φR < 0 somewhere", residual, 1e-12, detail)


def sparsity(population: Population) -> Check:
    """Check theorem 3: a sample has as many active features as latent classes it can come from."""
    active = (population.optimum > 0).sum(1)
    possible = (population.given_class > 0).sum(1)
    wrong = int((active != possible).sum())
    counts = f"{int(active.min())} to {int(active.max())} of {len(population.prior)} active"
    return Check("sparsity: ‖φ(x)‖₀ = number of classes x can come from", wrong, 0, counts)


def orthogonality(seed: int) -> Check:
    """Check that the features are orthonormal over the population if every sample has one class."""
    single = Population.drawn(classes=5, pure=3, mixed=0, seed=seed)
    second_moment = single.optimum.T @ (single.marginal[:, None] * single.optimum)
    residual = float((second_moment - torch.eye(5, dtype=torch.float64)).abs().max())
    return Check("one class per sample: E[φφᵀ] = I", residual, 1e-12)


def energy(population: Population, seed: int) -> Check:
    """Check that E[φ_j²] is 1 for a class that shares no sample with others, however rare it is, and less otherwise.

    E[φ_j²] is the mean of P(c_j|x) over the samples of class c_j.
    """
    single = Population.drawn(classes=5, pure=3, mixed=0, seed=seed)
    residual, energies = 0.0, []
    for drawn in (single, population):
        energy = drawn.marginal @ drawn.optimum.square()
        is_mixed = (drawn.given_class > 0).sum(1) > 1
        is_shared = ((drawn.given_class > 0) & is_mixed[:, None]).any(0)
        residual = max([residual, *(energy[~is_shared] - 1).abs().tolist()])
        energies += energy[is_shared].tolist()
    residual = residual if max(energies) < 1 else float("inf")
    detail = f"{min(energies):.2f} to {max(energies):.2f} with shared samples"
    return Check("equal energy: E[φ_j²] = 1 without shared samples, less with them", residual, 1e-12, detail)


def uniqueness(population: Population, seed: int) -> Check:
    """Check theorem 4: every non-negative solution is φ, up to the order of its features."""
    solutions = _solutions(population, seed, non_negative=True)
    agreement = min(_agreements([population.optimum, *solutions]), default=-1.0)
    reached = len(solutions)
    detail = f"{reached} of {_STARTS} random starts reach the optimum, {_STARTS - reached} stop in a local one"
    residual = 1 - agreement if len(solutions) > 1 else float("inf")
    return Check("NCL is unique: independent optima agree, 1 − cosine", residual, 1e-3, detail)


def disagreement(population: Population, seed: int) -> Check:
    """Check that without non-negativity, random starts reach the same loss but disagree with each other."""
    return disagreement_of(_solutions(population, seed, non_negative=False))


def disagreement_of(solutions: list[Tensor]) -> Check:
    """Check that solutions of equal loss, out of several random starts, disagree with each other."""
    # The median over pairs: with two classes a rotation has one angle, and two may be close by chance.
    agreement = statistics.median(_agreements(solutions)) if len(solutions) > 1 else 1.0
    detail = f"{len(solutions)} of {_STARTS} random starts reach the optimum; the residual is the median over pairs"
    return Check("CL is not: its optima have the same loss and disagree: cosine", agreement, 0.999, detail)


def bayes_head(population: Population, seed: int) -> Check:
    """Check theorem 5: the head W = √P(c) P(y|c) on φ gives P(y|x), so a linear probe is Bayes-optimal."""
    generator = torch.Generator().manual_seed(seed)
    label_given_class = torch.rand(len(population.prior), 3, generator=generator, dtype=torch.float64)
    label_given_class /= label_given_class.sum(1, keepdim=True)
    head = population.prior.sqrt()[:, None] * label_given_class
    truth = population.posterior @ label_given_class
    residual = float((population.optimum @ head - truth).abs().max())
    return Check("a linear head on φ is Bayes-optimal: φW = P(y|x)", residual, 1e-12)


def multimodal(population: Population, seed: int) -> Check:
    """Check theorem 6: two encoders factorise Ā_M = D_x^-½ P(x,y) D_y^-½ in the same way."""
    other = Population(
        population.prior, Population.drawn(len(population.prior), pure=1, mixed=5, seed=seed + 1).given_class
    )
    joint = (population.given_class * population.prior) @ other.given_class.T
    roots = population.marginal.sqrt()[:, None], other.marginal.sqrt()[:, None]
    normalised = joint / (roots[0] * roots[1].T)

    def gap(f: Tensor, g: Tensor) -> float:
        similar = f @ g.T
        independent = population.marginal[:, None] * other.marginal
        loss = -2 * (joint * similar).sum() + (independent * similar.square()).sum()
        error = (normalised - (roots[0] * f) @ (roots[1] * g).T).square().sum()
        return abs(float(error - loss - normalised.square().sum()))

    generator = torch.Generator().manual_seed(seed)
    f, g = (torch.rand(n, 6, generator=generator, dtype=torch.float64) for n in joint.shape)
    at_optimum = (roots[0] * population.optimum) @ (roots[1] * other.optimum).T
    residual = max(gap(f, g), float((at_optimum - normalised).abs().max()))
    return Check("two modalities: ‖Ā_M − FGᵀ‖² = L(f, g) + ‖Ā_M‖², optimum FGᵀ = Ā_M", residual, 1e-12)


def training(population: Population, seed: int, starts: int = 5) -> Check:
    """Check that gradient descent on sampled pairs finds the closed-form optimum."""
    ends = [_trained(population, seed + start) for start in range(starts)]
    gaps = [(float(population.loss(f)) - population.least_loss) / -population.least_loss for f in ends]
    best = min(range(starts), key=gaps.__getitem__)
    cosine = _smallest_cosine(ends[best], population.optimum)
    reached = sum(gap <= 1e-3 for gap in gaps)
    # Like any NMF solver, gradient descent can stop in a local optimum, so there are several starts.
    detail = f"{reached} of {starts} starts reach the optimum; smallest cosine with φ {cosine:.4f}"
    residual = max(gaps[best], 1 - cosine)
    return Check("training on sampled pairs reaches φ: relative gap of the loss, 1 − cosine", residual, 1e-3, detail)


def _trained(population: Population, seed: int) -> Tensor:
    """Train a table of `(samples, classes)` features with the loss and the rectifier of this package, and return it."""
    generator = torch.Generator().manual_seed(seed)
    table = (0.3 * torch.rand(population.optimum.shape, generator=generator, dtype=torch.float64)).requires_grad_()
    rectify = NonNegative("rep_relu")
    # Plain SGD: the steps of Adam do not shrink with the gradient and push entries far below 0, where they stay.
    optimiser = torch.optim.SGD([table], lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _STEPS)
    for _ in range(_STEPS):
        first, second = population.pairs(_PAIRS, generator)
        f = rectify(table)
        loss = losses.spectral(f[first], f[second])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    trained: Tensor = rectify(table).detach()
    return trained


def matrix_factorisation(population: Population, seed: int, starts: int = 5) -> Check:
    """Check that a classical NMF solver on the explicit matrix reaches the same loss."""
    from sklearn.decomposition import NMF

    A = population.normalised.numpy()
    gaps = []
    for start in range(starts):
        solver = NMF(len(population.prior), init="random", random_state=seed + start, tol=1e-12, max_iter=20_000)
        W = solver.fit_transform(A)
        gaps.append(float(np.square(A - W @ solver.components_).sum()) / -population.least_loss)
    detail = f"scikit-learn's NMF: {sum(gap <= 1e-3 for gap in gaps)} of {starts} starts reach the optimum"
    return Check("a classical NMF solver on Ā reaches the same loss: relative gap", min(gaps), 1e-3, detail)


def _solutions(population: Population, seed: int, non_negative: bool) -> list[Tensor]:
    """Minimise the loss from random starts and return the solutions within 1e-6 of the smallest loss."""
    width = population.optimum.shape
    rng = np.random.default_rng(seed)
    bounds = [(0, None)] * population.optimum.numel() if non_negative else None

    def loss_and_gradient(flat: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, object]:
        f = torch.from_numpy(flat).view(width).requires_grad_()
        loss = population.loss(f)
        loss.backward()
        assert f.grad is not None
        return loss.item(), f.grad.flatten().numpy()

    found = []
    for _ in range(_STARTS):
        start = rng.random(population.optimum.numel()) if non_negative else rng.normal(size=population.optimum.numel())
        options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-16, "gtol": 1e-11}
        end = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if end.fun - population.least_loss < 1e-6:
            found.append(torch.from_numpy(end.x).view(width))
    return found


def _agreements(solutions: list[Tensor]) -> list[float]:
    """Return, for every pair of solutions, the smallest absolute cosine of their matched features."""
    return [_smallest_cosine(a, b, signed=False) for a, b in itertools.combinations(solutions, 2)]


def _smallest_cosine(a: Tensor, b: Tensor, signed: bool = True) -> float:
    """Return the smallest cosine of matched features; 0 if a dead feature has no match."""
    cosine = metrics.match(a, b, signed).cosine
    return float(cosine.min()) if len(cosine) == min(a.shape[1], b.shape[1]) else 0.0
