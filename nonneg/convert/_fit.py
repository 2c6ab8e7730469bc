"""Fitting a head: its codes keep the neighbourhoods of the vectors, and the positives that are known."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg import losses
from nonneg.codes import active
from nonneg.convert._config import FitConfig
from nonneg.convert._head import Head
from nonneg.convert._rows import Rows, have_one_direction, unit, zero_rows
from nonneg.errors import InputError

_WARM_UP = 20  # steps
_FIRST_ACTIVE = 4  # the fit starts with this multiple of `max_active`, so that all features learn
_NEIGHBOURS = 25.0  # per sample in a batch of 512, where the temperature is chosen from the data
_SHIFT = 0.4  # share of `noise` that is added to the vectors and the target alike, as data augmentation
_CHECKS = 10  # how often a fit looks for dead features; never in its last fifth


class Fit:
    """Fit a head step by step. A fit can resume from the `state` of another one, on any device.

    Args:
        rows: the vectors.
        groups: the group of each row, -1 for none; rows of the same group are positives.
        config: the settings.
        names: of the parts of the rows, for error messages.
    """

    def __init__(self, rows: Rows, groups: Tensor | None, config: FitConfig, names: Sequence[str] = ("X",)) -> None:
        for part, name in zip(rows.parts, names, strict=True):
            if len(zeros := zero_rows(part)):
                others = f" (and {len(zeros) - 1:,} more)" if len(zeros) > 1 else ""
                advice = "such rows have no direction, get empty codes and should be left out of a fit"
                warnings.warn(f"row {zeros[0]} of {name}{others} contains only zeros; {advice}", stacklevel=4)
        self.rows, self.groups, self.config = rows, groups, config
        self.device = rows.device
        self.chance = torch.Generator().manual_seed(config.seed)
        self.noise = torch.Generator(self.device).manual_seed(config.seed)
        self.head = Head(rows.width, config.n_components, config.max_active).to(self.device)
        self.batch_size = min(config.batch_size, len(rows))
        self.done = 0
        self.seen_active = torch.zeros(config.n_components, device=self.device)
        sample = rows.take(torch.randperm(len(rows), generator=self.chance)[: max(4096, config.n_components)])
        if have_one_direction(sample):
            raise InputError(
                f"{' and '.join(names)}: all {len(sample)} rows have the same direction (n_features={rows.width}),"
                " expected different directions, by which vectors are compared"
            )
        self.mean = sample.mean(0)
        self.spread = float((sample - self.mean).square().sum(1).mean().sqrt())
        self.temperature = config.temperature or _temperature_of(sample[:512])
        self._start_from(sample)
        # The temperature of the codes is learnt, as similarities of sparse codes differ from those of vectors.
        self.log_scale = torch.tensor(-math.log(self.temperature), device=self.device, requires_grad=True)
        self.optimiser = torch.optim.Adam([*self.head.parameters(), self.log_scale], config.learning_rate, (0.9, 0.99))
        self.batches = _batches(len(rows), groups, self.batch_size, self.chance)

    def _start_from(self, sample: Tensor) -> None:
        """Initialise each feature with the direction from the mean to one sample, so that it is alive."""
        count = self.config.n_components
        picked = sample[torch.arange(count, device=self.device) % len(sample)]
        chance = torch.randn(picked.shape, generator=self.noise, device=self.device)
        # If there are fewer samples than features, noise separates the copies.
        copies = (torch.arange(count, device=self.device) >= len(sample))[:, None]
        directions = unit(picked - self.mean + copies * chance * self.spread / math.sqrt(self.rows.width))
        with torch.no_grad():
            self.head.weight.copy_(directions)
            self.head.bias.copy_(-directions @ self.mean)

    def step(self) -> Tensor:
        """Make one update; return the loss before it."""
        progress = self.done / self.config.max_iter
        x, z, loss = self.neighbourhood(next(self.batches), progress)
        update(self.optimiser, loss, self.config, self.done)
        self.seen_active += active(z.detach()).sum(0)
        self.done += 1
        if self.done % max(1, self.config.max_iter // _CHECKS) == 0:
            if progress < 0.8:
                self._revive(x)
            self.seen_active.zero_()
        return loss.detach()

    def neighbourhood(self, picked: Tensor, progress: float) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors and codes of some rows, and the loss by which the codes keep the vectors' neighbourhoods.

        The target is computed without noise, the codes with noise: a code then covers a region around its vector and
        generalises to new vectors.
        """
        x = self._moved(self.rows.take(picked), _SHIFT)
        z = self.head(self._moved(x, 1.0), self._limit(progress))
        return x, z, losses.neighbourhood(z, self._target(x, picked), torch.exp(-self.log_scale))

    def _moved(self, x: Tensor, share: float) -> Tensor:
        """Add a share of the config's noise to the vectors."""
        noise = torch.randn(x.shape, generator=self.noise, device=self.device)
        return unit(x + share * self.config.noise * self.spread / math.sqrt(x.shape[1]) * noise)

    def _limit(self, progress: float) -> int | None:
        """The limit on active features per row: it falls to `max_active` in the first half of the fit."""
        most = self.config.max_active
        if most is None:
            return None
        first = min(_FIRST_ACTIVE * most, self.config.n_components)
        limit = first * math.pow(most / first, min(1.0, 2 * progress))
        return max(most, round(limit))

    def _target(self, x: Tensor, picked: Tensor) -> Tensor:
        """The neighbourhood of each row in the batch: `(batch, batch)`, each row a distribution."""
        itself = torch.eye(len(x), dtype=torch.bool, device=self.device)
        target = F.softmax((x @ x.T / self.temperature).masked_fill(itself, -math.inf), 1)
        if self.groups is None:
            return target
        group = self.groups[picked].to(self.device)
        positive = ((group[:, None] == group) & (group >= 0) & ~itself).float()
        count = positive.sum(1, keepdim=True)
        share = torch.where(count > 0, self.config.positive_share, 0.0)
        return (1 - share) * target + share * positive / count.clamp(min=1)

    @torch.no_grad()
    def _revive(self, x: Tensor) -> None:
        """Initialise features again that were active on no recent row, with samples of the last batch."""
        dead = torch.nonzero(self.seen_active == 0).flatten()[: len(x)]
        live = self.seen_active > 0
        if not len(dead) or not bool(live.any()):
            return
        scale = self.head.weight[live].norm(dim=1).median()
        directions = scale * unit(x[: len(dead)] - self.mean)
        self.head.weight[dead] = directions
        self.head.bias[dead] = -directions @ self.mean
        for parameter in (self.head.weight, self.head.bias):
            state = self.optimiser.state[parameter]
            state["exp_avg"][dead] = 0
            state["exp_avg_sq"][dead] = state["exp_avg_sq"].mean()

    # The state, for checkpoints

    def state(self) -> dict[str, Tensor]:
        """Everything that the remaining steps depend on."""
        averages = {
            f"{kind}.{i}": value
            for i, parameter in enumerate(self._parameters())
            for kind, value in self.optimiser.state.get(parameter, {}).items()
        }
        return {
            "weight": self.head.weight.detach(),
            "bias": self.head.bias.detach(),
            "log_scale": self.log_scale.detach(),
            "done": torch.tensor(self.done),
            "seen_active": self.seen_active,
            f"noise.{self.device.type}": self.noise.get_state(),
            **averages,
        }

    def resume(self, state: dict[str, Tensor]) -> None:
        """Continue from the state of a fit on the same rows with the same config, perhaps on another device."""
        with torch.no_grad():
            self.head.weight.copy_(state["weight"])
            self.head.bias.copy_(state["bias"])
            self.log_scale.copy_(state["log_scale"])
        self.seen_active.copy_(state["seen_active"])
        self.done = int(state["done"])
        if (noise := state.get(f"noise.{self.device.type}")) is not None:
            self.noise.set_state(noise)
        else:  # each type of device has its own generator: the noise differs from here on
            self.noise.manual_seed(self.config.seed + self.done)
        for i, parameter in enumerate(self._parameters()):
            kinds = {name.split(".")[0]: value for name, value in state.items() if name.endswith(f".{i}")}
            self.optimiser.state[parameter] = {
                kind: value.clone() if kind == "step" else value.to(self.device, copy=True)
                for kind, value in kinds.items()
            }
        # Drawing the order of rows again is cheaper than storing it.
        for _ in range(self.done):
            next(self.batches)

    def _parameters(self) -> list[Tensor]:
        return [self.head.weight, self.head.bias, self.log_scale]


def update(optimiser: torch.optim.Optimizer, loss: Tensor, config: FitConfig, done: int) -> None:
    """Make one update, after `done` others; the learning rate has a warm-up and then falls to 0 along a cosine."""
    factor = min(1.0, (done + 1) / _WARM_UP) * 0.5 * (1 + math.cos(math.pi * done / config.max_iter))
    for group in optimiser.param_groups:
        group["lr"] = config.learning_rate * factor
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


@contextmanager
def memory_errors_as_input_errors(config: FitConfig) -> Iterator[None]:
    """Turn a lack of memory during a fit into an `InputError` that says what to reduce."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        is_lack = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
        if not is_lack:
            raise
        raise InputError(
            f"out of memory with n_components {config.n_components:,} and batch_size {config.batch_size:,}; reduce"
            " one of them or both"
        ) from error


def _temperature_of(sample: Tensor) -> float:
    """The temperature at which a sample has about 25 neighbours among 512; it depends on the embedding model."""
    itself = torch.eye(len(sample), dtype=torch.bool, device=sample.device)
    similarities = (sample @ sample.T).masked_fill(itself, -math.inf)
    wanted = math.log(min(_NEIGHBOURS, max(1.5, (len(sample) - 1) / 2)))
    low, high = 1e-4, 10.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        likely = F.log_softmax(similarities / middle, 1).masked_fill(itself, 0.0)
        entropy = float(-(likely.exp().masked_fill(itself, 0.0) * likely).sum(1).mean())
        low, high = (middle, high) if entropy < wanted else (low, middle)
    return middle


def _batches(rows: int, groups: Tensor | None, size: int, chance: torch.Generator) -> Iterator[Tensor]:
    """Row numbers of each batch, without end; positives are in the same batch."""
    while True:
        order = torch.randperm(rows, generator=chance)
        if groups is not None:
            order = _pair_up(order, groups, chance)
        for start in range(0, rows - size + 1, size):
            yield order[start : start + size]


def _pair_up(order: Tensor, groups: Tensor, chance: torch.Generator) -> Tensor:
    """Pair up rows of the same group and shuffle the pairs, so that each batch has positives and negatives."""
    by_group = order[groups[order].argsort(stable=True)]
    sorted_groups = groups[by_group]
    starts = torch.ones(rows := len(order), dtype=torch.bool)
    starts[1:] = sorted_groups[1:] != sorted_groups[:-1]
    first = torch.where(starts, torch.arange(rows), 0).cummax(0).values
    within = torch.arange(rows) - first
    is_single = sorted_groups < 0
    pair = torch.where(is_single | (within % 2 == 0), 1, 0).cumsum(0) - 1
    shuffled = torch.randperm(int(pair[-1]) + 1, generator=chance)
    return by_group[shuffled[pair].argsort(stable=True)]
