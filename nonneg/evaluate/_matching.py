"""Matching the features of different seeds, models or retrainings one to one, by the samples they are active on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from rich.text import Text

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.evaluate._measurement import finite_or_none
from nonneg.features import Features, check_features
from nonneg.layout import rich_table

Array = npt.NDArray[Any]
_SHOWN = 5  # most and least stable features in a table


@dataclass(frozen=True)
class Matching:
    """How the features of the first set match those of the others. It prints as a table with rich.

    Attributes:
        samples: number of samples over which the features were compared.
        live: number of live features of each set, active on at least one sample; dead features are never matched.
        partners: `(others, features)`: the feature of each other set that a feature of the first is matched to; -1
            if it is dead, or if no feature was left.
        cosine: `(others, features)`: cosine of the two activations over the samples; 0 without a partner, NaN if dead.
        agreement: over all pairs of sets, as `metrics.agreement`.
        floor: chance agreement: of the first set with each other set, whose samples are shuffled.
        names: feature of the first set to name.
        signed: False if the absolute cosine was used.
        levels: stabilities at which features are counted in the table and in JSON.
    """

    samples: int
    live: tuple[int, ...]
    partners: Array
    cosine: Array
    agreement: metrics.Agreement
    floor: float
    names: Mapping[int, str]
    signed: bool
    levels: tuple[float, ...] = (0.5, 0.8)

    @property
    def stability(self) -> Array:
        """`(features,)` of the first set: the mean of `cosine` over the other sets; NaN if dead."""
        return np.asarray(self.cosine.mean(axis=0))

    @property
    def deviation(self) -> float:
        """Standard deviation of the cosine over the matched features of the first set."""
        return float(np.std(self.cosine[self.partners >= 0]))

    def at_least(self, least: float) -> int:
        """Return the number of features of the first set with at least this stability."""
        return int((self.stability >= least).sum())

    def ranked(self) -> Array:
        """Return the live features of the first set, most stable first."""
        return np.argsort(-self.stability, kind="stable")[: self.live[0]]  # NaN comes last

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON; NaN becomes null."""
        return {
            "samples": self.samples,
            "signed": self.signed,
            "live": list(self.live),
            "agreement": self.agreement.value,
            "standard_error": finite_or_none(self.agreement.standard_error),
            "deviation": self.deviation,
            "floor": self.floor,
            "variant": self.agreement.variant,
            "per_pair": [{"sets": list(pair), "agreement": value} for pair, value in self.agreement.per_pair.items()],
            "at_least": {str(level): self.at_least(level) for level in self.levels},
            "features": [
                {
                    "feature": feature,
                    "name": self.names.get(feature),
                    "stability": finite_or_none(float(stability)),
                    "partners": [int(partner) if partner >= 0 else None for partner in self.partners[:, feature]],
                }
                for feature, stability in enumerate(self.stability)
            ],
        }

    def __rich__(self) -> Table:
        error = self.agreement.standard_error
        spread = f"{self.deviation:.3f} over features" if np.isnan(error) else f"{error:.3f} over sets"
        of_all = f"of {self.live[0]:,} features"
        headings = [f"{len(self.live)} sets, {self.samples:,} samples", "cosine" if self.signed else "|cosine|", ""]
        rows = [
            ["live features", "", ", ".join(f"{count:,}" for count in self.live)],
            ["agreement", f"{self.agreement.value:.3f}", f"± {spread}"],
            ["  chance", f"{self.floor:.3f}", "samples shuffled"],
            *([f"stable at {level:g} or more", f"{self.at_least(level):,}", of_all] for level in self.levels),
        ]
        table = rich_table(headings, rows, left=(0, 2))
        ranked = self.ranked()
        most = min(_SHOWN, (len(ranked) + 1) // 2)
        for title, some in (
            ("most stable", ranked[:most]),
            ("least stable", ranked[max(most, len(ranked) - _SHOWN) :]),
        ):
            table.add_row("")
            table.add_row(title, "", "matched to", style="bold")
            for feature in some:
                partners = ", ".join(str(partner) if partner >= 0 else "none" for partner in self.partners[:, feature])
                title_cell = Text(f"{feature} {self.names.get(int(feature), '')}".strip())
                table.add_row(title_cell, f"{self.stability[feature]:.3f}", partners)
        return table


def match_features(*features: Features, signed: bool = True, seed: int = 0) -> Matching:
    """Match the features of two or more sets over the same samples so that the sum of cosines is largest.

    Args:
        *features: two or more sets with the same ids, in any order. Features without ids use their row numbers.
        signed: False uses the absolute cosine, for features that are determined only up to their sign.
        seed: of the shuffled samples that give the chance agreement.

    Example:
        >>> codes = np.random.default_rng(0).random((50, 3), np.float32)
        >>> matching = match_features(Features(codes), Features(codes[:, [2, 0, 1]]))
        >>> matching.partners[0], round(matching.agreement.value, 3)
        (array([1, 2, 0]), 1.0)
    """
    if len(features) < 2:
        raise InputError(f"match_features is given {len(features)} set of features, expected at least two")
    for each in features:
        check_features(each)
    first = features[0]
    codes = [first.codes, *(aligned(first, other, place) for place, other in enumerate(features[1:], 2))]
    is_live = [metrics.live_features(each).numpy() for each in codes]
    live = tuple(int(each.sum()) for each in is_live)
    if not all(live):
        raise InputError(f"set {live.index(0) + 1} of the features has no live feature, expected at least one")
    partners = np.full((len(codes) - 1, first.shape[1]), -1)
    cosine = np.where(is_live[0], 0.0, np.nan)[None].repeat(len(partners), axis=0)
    matches = {(0, place): metrics.match(first.codes, other, signed) for place, other in enumerate(codes[1:], 1)}
    for found, own_partners, own_cosine in zip(matches.values(), partners, cosine, strict=True):
        own_partners[found.a.numpy()], own_cosine[found.a.numpy()] = found.b.numpy(), found.cosine.numpy()
    order = np.random.default_rng(seed).permutation(len(first))
    chance = [metrics.match(first.codes, other[order], signed).cosine.mean() for other in codes[1:]]
    agreement, floor = metrics.agreement(codes, signed, matches), float(np.mean(chance))
    return Matching(len(first), live, partners, cosine, agreement, floor, dict(first.names), signed)


def aligned(first: Features, other: Features, place: int = 2) -> Any:
    """Return the codes of `other` with its rows in the order of `first`; both must have the same ids.

    Example:
        >>> first = Features(np.eye(2, dtype=np.float32), ids=["a", "b"])
        >>> aligned(first, Features(np.eye(2, dtype=np.float32), ids=["b", "a"]))
        array([[0., 1.],
               [1., 0.]], dtype=float32)
    """
    rows = pc.index_in(_ids(first), value_set=_ids(other))
    common = len(rows) - rows.null_count
    if not common == len(first) == len(other):
        raise InputError(
            f"set {place} of the features has {len(other):,} samples and the first {len(first):,}, with {common:,} ids"
            " in common, expected the same ids in both"
        )
    order = np.asarray(rows)
    return other.codes if (order == np.arange(len(order))).all() else other.codes[order]


def _ids(features: Features) -> pa.Array:
    if "id" in features.samples.column_names:
        return features.samples["id"].combine_chunks()
    return pa.array([features.id(row) for row in range(len(features))])
