"""Fitting a head: its codes must keep the neighbourhood that the vectors have, and the positives that are known."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg import losses
from nonneg.convert._head import Head
from nonneg.convert._rows import Rows, have_one_direction, unit
from nonneg.errors import InputError

_WARM_UP = 20  # steps
_FIRST_ACTIVE = 4  # times `max_active` features stay at the beginning, so that all of them learn
_NEIGHBOURS = 25.0  # of each sample in a batch of 512, where the temperature is left to the data
_CHECKS = 10  # times during a fit that features are looked through for dead ones; none in the last fifth


@dataclass(frozen=True)
class FitConfig:
    """How a head is fitted; the estimators' parameters of the same names."""

    n_components: int
    max_active: int | None
    temperature: float | None
    positive_share: float
    noise: float
    max_iter: int
    batch_size: int
    learning_rate: float
    seed: int


class Fit:
    """A head and what fitting it needs, one step at a time; its `state` goes on where another one stopped.

    Args:
        rows: the vectors.
        groups: for each row which group it belongs to, -1 for none: rows of one group are positives.
        config: how.
    """

    shift = 0.4  # of `noise`: how far samples themselves are moved, target and all, so that there are more of them

    def __init__(self, rows: Rows, groups: Tensor | None, config: FitConfig) -> None:
        self.rows, self.groups, self.config = rows, groups, config
        self.device = rows.device
        self.chance = torch.Generator().manual_seed(config.seed)
        self.noise = torch.Generator(self.device).manual_seed(config.seed)
        self.head = Head(rows.width, config.n_components, config.max_active).to(self.device)
        self.batch_size = min(config.batch_size, len(rows))
        self.done = 0
        self.seen_active = torch.zeros(config.n_components, device=self.device)
        sample = rows.take(torch.randperm(len(rows), generator=self.chance)[: max(4096, config.n_components)])
        if have_one_direction(sample, sample[0]):
            raise InputError(
                f"all of {len(sample)} rows point in one direction (n_features={rows.width}), expected different ones:"
                " vectors are compared by direction"
            )
        self.mean = sample.mean(0)
        self.spread = float((sample - self.mean).square().sum(1).mean().sqrt())
        self.temperature = config.temperature or _temperature_of(sample[:512])
        self._start_from(sample)
        # The temperature of the codes is learnt: how alike sparse codes are differs from how alike the vectors are.
        self.log_scale = torch.tensor(-math.log(self.temperature), device=self.device, requires_grad=True)
        self.optimiser = torch.optim.Adam([*self.head.parameters(), self.log_scale], config.learning_rate, (0.9, 0.99))
        self.batches = _batches(len(rows), groups, self.batch_size, self.chance)

    def _start_from(self, sample: Tensor) -> None:
        """Each feature begins as the direction of one sample from the mean: alive, and standing for something."""
        count = self.config.n_components
        picked = sample[torch.arange(count, device=self.device) % len(sample)]
        chance = torch.randn(picked.shape, generator=self.noise, device=self.device)
        # Where there are fewer samples than features, the copies part a little.
        copies = (torch.arange(count, device=self.device) >= len(sample))[:, None]
        directions = unit(picked - self.mean + copies * chance * self.spread / math.sqrt(self.rows.width))
        with torch.no_grad():
            self.head.weight.copy_(directions)
            self.head.bias.copy_(-directions @ self.mean)

    def step(self) -> Tensor:
        """One update; the loss before it."""
        config, progress = self.config, self.done / self.config.max_iter
        picked = next(self.batches)
        x = self.moved(self.rows.take(picked), self.shift)
        target = self.target(x, picked)
        for group in self.optimiser.param_groups:
            group["lr"] = config.learning_rate * self.rate(self.done)
        # The target is that of the vectors as they are, the codes are those of vectors a little beside
        # them: what a code stands for then covers the surroundings, and carries over to new vectors.
        z = self.head(self.moved(x, 1.0), self.limit(progress))
        loss = losses.neighbourhood(z, target, torch.exp(-self.log_scale))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.seen_active += (z.detach() > 0).sum(0)
        self.done += 1
        if self.done % max(1, config.max_iter // _CHECKS) == 0:
            if progress < 0.8:
                self._revive(x)
            self.seen_active.zero_()
        return loss.detach()

    def rate(self, done: int) -> float:
        """What the learning rate is multiplied by: a warm-up, then a cosine to 0."""
        return min(1.0, (done + 1) / _WARM_UP) * 0.5 * (1 + math.cos(math.pi * done / self.config.max_iter))

    def moved(self, x: Tensor, share: float) -> Tensor:
        """The vectors with noise, a share of what the config asks for."""
        noise = torch.randn(x.shape, generator=self.noise, device=self.device)
        return unit(x + share * self.config.noise * self.spread / math.sqrt(x.shape[1]) * noise)

    def limit(self, progress: float) -> int | None:
        """How many features of a row stay: many at first, in the second half as many as asked for."""
        most = self.config.max_active
        if most is None:
            return None
        first = min(_FIRST_ACTIVE * most, self.config.n_components)
        limit = first * math.pow(most / first, min(1.0, 2 * progress))
        return max(most, round(limit))

    def target(self, x: Tensor, picked: Tensor) -> Tensor:
        """How much each row of the batch resembles each other one: `(batch, batch)`, rows that sum to 1."""
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
        """Features that were active on no row lately begin anew, as samples of the last batch."""
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

    # A state that can be written down

    def state(self) -> dict[str, Tensor]:
        """All that the steps to come depend on."""
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
            "noise": self.noise.get_state(),
            **averages,
        }

    def resume(self, state: dict[str, Tensor]) -> None:
        """Go on from a state of a fit on the same rows with the same config."""
        with torch.no_grad():
            self.head.weight.copy_(state["weight"])
            self.head.bias.copy_(state["bias"])
            self.log_scale.copy_(state["log_scale"])
        self.seen_active.copy_(state["seen_active"])
        self.noise.set_state(state["noise"])
        for i, parameter in enumerate(self._parameters()):
            kinds = {name.split(".")[0]: value for name, value in state.items() if name.endswith(f".{i}")}
            self.optimiser.state[parameter] = {
                kind: value.clone() if kind == "step" else value.to(self.device, copy=True)
                for kind, value in kinds.items()
            }
        # The order of rows is drawn again up to where it was: cheaper than writing it down.
        self.done = int(state["done"])
        for _ in range(self.done):
            next(self.batches)

    def _parameters(self) -> list[Any]:
        return [self.head.weight, self.head.bias, self.log_scale]


def _temperature_of(sample: Tensor) -> float:
    """At which a sample has about 25 neighbours among 512: how alike vectors are differs from model to model."""
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
    """Row numbers of each batch, for ever; positives lie side by side."""
    while True:
        order = torch.randperm(rows, generator=chance)
        if groups is not None:
            order = _partners_together(order, groups, chance)
        for start in range(0, rows - size + 1, size):
            yield order[start : start + size]


def _partners_together(order: Tensor, groups: Tensor, chance: torch.Generator) -> Tensor:
    """The rows in twos of one group, the twos in random order: each batch then has positives and negatives."""
    by_group = order[groups[order].argsort(stable=True)]
    sorted_groups = groups[by_group]
    starts = torch.ones(rows := len(order), dtype=torch.bool)
    starts[1:] = sorted_groups[1:] != sorted_groups[:-1]
    first = torch.where(starts, torch.arange(rows), 0).cummax(0).values
    within = torch.arange(rows) - first
    is_lone = sorted_groups < 0
    couple = torch.where(is_lone | (within % 2 == 0), 1, 0).cumsum(0) - 1
    shuffled = torch.randperm(int(couple[-1]) + 1, generator=chance)
    return by_group[shuffled[couple].argsort(stable=True)]
