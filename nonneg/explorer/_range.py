"""Whether a new input resembles the samples of a set, judged by how much those resemble each other."""

import io
from contextlib import suppress
from functools import cached_property

import numpy as np

from nonneg.codes import unit_rows
from nonneg.features import Features
from nonneg.payload import Array

_REFERENCES = 2_000  # samples that a new input is compared with
_QUANTILE = 0.01  # an input is out of range if only 1% of the samples are as unlike their nearest other sample
_SIDE = 16  # pixels


class Range:
    """How similar samples are to their nearest neighbours: what is normal for a new input.

    Images are compared as 16x16 pixels, by their correlation, because a model may give a picture of another kind the
    code of a familiar one; texts and other samples by the cosine of their codes.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        rows = np.random.default_rng(0).permutation(len(features))[:_REFERENCES]
        self._rows = np.sort(rows)

    def problem(self, code: Array, picture: bytes | None) -> str | None:
        """Return why an input is out of range, or None. `code` is `(features,)`; `picture` is an encoded image."""
        if not code.any():
            return "No feature is active on it."
        if picture is not None and self._pictures is not None and len(self._rows) > 1:
            references, least = self._pictures
            if float((references @ _signature(picture)).max()) < least:
                return f"It does not look like any of the {self._features.kind} in this set."
        if len(self._rows) > 1:
            references, least = self._codes
            if float((references @ unit_rows(code[None].astype(np.float64))[0]).max()) < least:
                return f"Its features do not occur together in any of the {self._features.kind} in this set."
        return None

    @cached_property
    def _codes(self) -> tuple[Array, float]:
        units = self._features.units[self._rows]
        return units, _normal(np.asarray((units @ units.T).todense()))

    @cached_property
    def _pictures(self) -> tuple[Array, float] | None:
        if not self._features.has_media:
            return None
        found = []
        for row in self._rows:
            with suppress(Exception):  # for pictures that are damaged or too large, Pillow raises many types of errors
                if picture := self._features.media(int(row)):
                    found.append(_signature(picture))
        if len(found) < 2:
            return None
        signatures = np.stack(found)
        return signatures, _normal(signatures @ signatures.T)


def _normal(similarity: Array) -> float:
    """The similarity to the nearest other sample that 99% of the samples reach."""
    np.fill_diagonal(similarity, -1)
    return float(np.quantile(similarity.max(axis=1), _QUANTILE)) - 1e-6


def _signature(picture: bytes) -> Array:
    """A picture as 16x16 RGB pixels with mean 0 and length 1; an image of one colour is all zeros."""
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        # The whole image, as encoders see it after resizing.
        small = np.asarray(image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BOX), np.float32).ravel()
    return np.asarray(unit_rows((small - small.mean())[None])[0])
