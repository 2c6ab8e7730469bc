"""A feature's card: what one feature is about, also as HTML for notebooks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from nonneg.codes import EPSILON
from nonneg.features._media import data_uri
from nonneg.labels import is_labelled
from nonneg.payload import Array

if TYPE_CHECKING:
    from nonneg.features._features import Features

_LABELS_SHOWN, _EXCERPT_LENGTH = 3, 160


@dataclass(frozen=True)
class Card:
    """What one feature is about.

    Attributes:
        feature: its column.
        name: the name that people gave it, or None.
        active: the number of samples on which it is active (above 1e-5 of the sample's length).
        frequency: `active` as a share of all samples.
        expected_activation: the mean over samples of its value divided by the sample's length.
        top: the rows of its strongest samples, strongest first.
        strengths: its values on `top`.
        labels: label name to share among the labelled samples on which it is active, largest first.
    """

    feature: int
    name: str | None
    active: int
    frequency: float
    expected_activation: float
    top: tuple[int, ...]
    strengths: tuple[float, ...]
    labels: Mapping[str, float]
    _features: "Features" = field(repr=False, compare=False)

    @property
    def media(self) -> tuple[bytes | None, ...]:
        """The encoded images of `top`, None for samples without one."""
        return tuple(map(self._features.media, self.top))

    @property
    def texts(self) -> tuple[str | None, ...]:
        """The texts of `top`, None for samples without one."""
        return tuple(map(self._features.text, self.top))

    def _repr_html_(self) -> str:
        """Show the name, frequency, labels and strongest samples in a notebook; all data is escaped.

        Example:
            >>> import numpy as np
            >>> from nonneg.features import Features
            >>> features = Features(np.eye(2, dtype=np.float32), texts=["<b>", "two"], names={0: "odd"})
            >>> features.feature(0)._repr_html_().startswith("<div><strong><bdi>odd</bdi></strong> (feature 0)")
            True
        """
        title = f"<strong>{_escaped(self.name or f'feature {self.feature}')}</strong>"
        number = f" (feature {self.feature})" if self.name else ""
        activity = f"active on {self.active:,} samples, {self.frequency:.1%}"
        labels = "".join(
            f"{', ' if i else '; '}{_escaped(name)} {share:.0%}"
            for i, (name, share) in enumerate(list(self.labels.items())[:_LABELS_SHOWN])
        )
        samples = "".join(map(_sample_html, self.media, self.texts, self.strengths))
        return f"<div>{title}{number}: {activity}{labels}<br>{samples}</div>"


def card(features: "Features", feature: int, top: int) -> Card:
    """Return the card of a feature with its `top` strongest samples."""
    rows, values = features.column(feature)
    lengths, expected_activation = features._activity
    is_active = np.abs(values) > EPSILON * lengths[rows]
    strongest = np.argsort(-values, kind="stable")[:top]
    return Card(
        feature=feature,
        name=features.names.get(feature),
        active=int(is_active.sum()),
        frequency=float(is_active.sum() / len(features)),
        expected_activation=float(expected_activation[feature]),
        top=tuple(int(row) for row in rows[strongest]),
        strengths=tuple(float(value) for value in values[strongest]),
        labels=MappingProxyType(_label_shares(features, rows[is_active])),
        _features=features,
    )


def _label_shares(features: "Features", rows: Array) -> dict[str, float]:
    """Return the shares of labels among the labelled samples in these rows."""
    if features.labels is None:
        return {}
    labels = features.labels[rows]
    found, counts = np.unique(labels[is_labelled(labels)], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {features.label_name(int(found[i])): float(counts[i] / counts.sum()) for i in order}


def _sample_html(media: bytes | None, text: str | None, strength: float) -> str:
    if media is not None:
        style = "height:64px;margin:2px;image-rendering:pixelated"
        return f'<img src="{data_uri(media)}" title="{strength:.3g}" style="{style}">'
    return "" if text is None else f"<p>{strength:.3g} {_escaped(text)}</p>"


def _escaped(text: str) -> str:
    """Shorten and escape a text, and isolate it so that right-to-left text does not reorder the text around it."""
    shown = text if len(text) <= _EXCERPT_LENGTH else text[: _EXCERPT_LENGTH - 1] + "…"
    return f"<bdi>{escape(shown)}</bdi>"
