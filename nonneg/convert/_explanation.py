"""What a glass-box classifier returns: explanations of scores, and the effect of an edit."""

from dataclasses import dataclass
from typing import Any

from nonneg.messages import escaped
from nonneg.naming import marked


@dataclass(frozen=True)
class Contribution:
    """The contribution of one feature to the score of one class: `activation * weight`.

    `is_guess` says whether the name is a suggested one that is a guess; it is then printed with a question mark.
    """

    feature: int
    name: str
    activation: float
    weight: float
    is_guess: bool = False

    @property
    def value(self) -> float:
        return self.activation * self.weight


@dataclass(frozen=True)
class Explanation:
    """Why a sample has its score for a class.

    Attributes:
        label: the class: the predicted one, unless another one was requested.
        score: of that class: the sum of the intercept and the contributions.
        intercept: the score of the class without any feature.
        contributions: of the active features, largest first.
    """

    label: Any
    score: float
    intercept: float
    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        lines = [f"{escaped(str(self.label))}: {self.score:.3f}", f"  {self.intercept:+.3f}  (intercept)"]
        positive = [c for c in self.contributions if c.value > 0]
        for c in positive:
            name = escaped(marked(c.name, c.is_guess))
            lines.append(f"  {c.value:+.3f}  {name} ({c.activation:.3f} x {c.weight:.3f})")
        if others := len(self.contributions) - len(positive):
            lines.append(f"  active features that contribute nothing: {others}")
        return "\n".join(lines)


@dataclass(frozen=True)
class WhatIf:
    """Accuracy before and after an edit, the number of predictions that it changes, and how many rows were fitted.

    Accuracy on rows that the classifier was fitted on is higher than on new ones.
    """

    before: float
    after: float
    changed: int
    rows: int = 0
    fitted: int = 0

    def __str__(self) -> str:
        text = f"accuracy {self.before:.1%} before and {self.after:.1%} after the edit, {self.changed:,} changed"
        if not self.fitted:
            return f"{text} predictions"
        those = "all" if self.fitted == self.rows else f"{self.fitted:,} of"
        return (
            f"{text} predictions; {those} {self.rows:,} rows were used to fit the classifier,"
            " so expect a lower accuracy on new ones"
        )
