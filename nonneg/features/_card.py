"""A feature's card as HTML, for notebooks: everything in it is data, and shown as text."""

import base64
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nonneg.features._features import Card

_LABELS, _EXCERPT = 3, 160


def card_html(card: "Card") -> str:
    """A fragment that needs nothing else.

    Example:
        >>> import numpy as np
        >>> from nonneg.features import Features
        >>> features = Features(np.eye(2, dtype=np.float32), texts=["<b>", "two"], names={0: "odd"})
        >>> card_html(features.feature(0)).startswith("<div><strong><bdi>odd</bdi></strong> (feature 0)")
        True
    """
    title = f"<strong>{_said(card.name or f'feature {card.feature}')}</strong>"
    number = f" (feature {card.feature})" if card.name else ""
    told = f"on for {card.active:,} samples, {card.frequency:.1%}"
    labels = ", ".join(f"{_said(name)} {share:.0%}" for name, share in list(card.labels.items())[:_LABELS])
    samples = "".join(map(_sample, card.media, card.texts, card.strengths))
    return f"<div>{title}{number}: {told}{'; ' + labels if labels else ''}<br>{samples}</div>"


def _sample(media: bytes | None, text: str | None, strength: float) -> str:
    if media is not None:
        kind = "png" if media.startswith(b"\x89PNG") else "jpeg"
        style = "height:64px;margin:2px;image-rendering:pixelated"
        source = f"data:image/{kind};base64,{base64.b64encode(media).decode()}"
        return f'<img src="{source}" title="{strength:.3g}" style="{style}">'
    if text is not None:
        return f"<p>{strength:.3g} {_said(text)}</p>"
    return ""


def _said(text: str) -> str:
    """Cut, and isolated: writing from right to left turns nothing else around."""
    return f"<bdi>{escape(text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + '…')}</bdi>"
