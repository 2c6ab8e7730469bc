"""What a glass box says of a sample, and of itself after a change."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to the score of one class: `activation * weight`."""

    feature: int
    name: str
    activation: float
    weight: float

    @property
    def value(self) -> float:
        return self.activation * self.weight


@dataclass(frozen=True)
class Explanation:
    """Why a sample is what it is said to be.

    Attributes:
        label: the class explained: the predicted one, unless another one was asked for.
        score: of that class: the intercept and the contributions, added up.
        intercept: what the class gets without any feature.
        contributions: of the active features, largest first.
    """

    label: Any
    score: float
    intercept: float
    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        lines = [f"{self.label}: {self.score:.3f}", f"  {self.intercept:+.3f}  (any sample)"]
        telling = [c for c in self.contributions if c.value > 0]
        lines += [f"  {c.value:+.3f}  {c.name} ({c.activation:.3f} x {c.weight:.3f})" for c in telling]
        if silent := len(self.contributions) - len(telling):
            lines.append(f"  {silent} more active features say nothing of it")
        return "\n".join(lines)


@dataclass(frozen=True)
class WhatIf:
    """Accuracy before and after a change, and how many predictions it changes."""

    before: float
    after: float
    changed: int
