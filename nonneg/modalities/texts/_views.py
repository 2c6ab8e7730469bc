"""Views of texts: tokens are cropped, deleted and hidden, by numbers drawn from (seed, epoch, sample, view)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from nonneg.errors import InputError
from nonneg.modalities._random import uniform
from nonneg.validation import check_fields

Share = Annotated[float, Field(ge=0, lt=1)]
_DROPOUT, _DELETED = 2**17, 2**18  # streams of random numbers; those of views have small numbers


@dataclass(frozen=True)
class ViewConfig:
    """How views of a text are drawn, in this order: crop, delete, mask. The defaults change nothing.

    Tokens that the tokenizer adds, such as [CLS], are always kept, and so is at least one token of the text.
    """

    crop_least: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Keep a random run of neighbouring tokens: the smallest share of the text; with 1 there is no crop."""
    delete: Share = 0.0
    """Probability that a token is deleted."""
    delete_most: Share = 0.0
    """Above `delete`: each view draws its own probability between the two, and so keeps few or many tokens. 0:
    `delete` for all views."""
    mask: Share = 0.0
    """Probability that a token is replaced by [MASK]."""

    def __post_init__(self) -> None:
        check_fields(self, "views.")
        if 0 < self.delete_most <= self.delete:
            found = f"views.delete_most is {self.delete_most} with views.delete {self.delete}"
            raise InputError(f"{found}, expected 0, or more than views.delete")


_UNCHANGED = ViewConfig()  # made once: the compiler would follow its checks


def token_views(
    tokens: Tensor,
    samples: Tensor,
    view: Tensor,
    config: ViewConfig,
    seed: int,
    epoch: Tensor | int,
    *,
    special: tuple[int, ...] = (),
    mask: int | None = None,
) -> Tensor:
    """Draw one view of each text.

    Args:
        tokens: `(views, longest)` integers, -1 after the last token of a text.
        samples: `(views,)` int64, the texts' row numbers.
        view: `(views,)` int64, the number of the view.
        config: how far a view may differ from its text.
        seed, epoch: of the run.
        special: tokens that are always kept.
        mask: the token that hides others; None if there is none.

    Returns:
        `(views, longest)`, the kept tokens in order, -1 after the last one.

    Example:
        >>> tokens, one = torch.tensor([[3, 4, 5, -1]]), torch.tensor([0])
        >>> token_views(tokens, one, one, ViewConfig(), 0, 0).tolist()
        [[3, 4, 5, -1]]
    """
    if config == _UNCHANGED:
        return tokens
    # Two numbers per position after the first two: they stay the same whatever the longest text of the data is.
    numbers = uniform(2 + 2 * tokens.shape[1], seed, epoch, samples, view)
    is_content = tokens >= 0
    for token in special:
        is_content = is_content & (tokens != token)
    place, size = is_content.cumsum(1) - 1, is_content.sum(1, keepdim=True)
    least = (size * config.crop_least).ceil().clamp(min=1)
    kept_size = (least + numbers[:, :1] * (size - least + 1)).floor().clamp(max=size)
    start = (numbers[:, 1:2] * (size - kept_size + 1)).floor()
    in_crop = is_content & (place >= start) & (place < start + kept_size)
    delete: Tensor | float = config.delete
    if config.delete_most > delete:
        delete = delete + (config.delete_most - delete) * uniform(1, seed, epoch, samples, view + _DELETED)
    kept = in_crop & (numbers[:, 2::2] >= delete)
    # If all would be deleted, the first token of the crop stays.
    kept = kept | (in_crop & (place == start) & ~kept.any(1, keepdim=True))
    if mask is not None:
        hidden = kept & (numbers[:, 3::2] < config.mask)
        tokens = torch.where(hidden, mask, tokens)
    kept = kept | ((tokens >= 0) & ~is_content)
    order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)
    return torch.where(kept, tokens, -1).gather(1, order)


def dropout_masks(
    masks: int, width: int, rate: float, seed: int, epoch: Tensor | int, samples: Tensor, view: Tensor
) -> Tensor:
    """Draw the masks of an encoder's dropout, `(views, masks, width)` float32: 0, or 1 / (1 - rate).

    A mask hides channels of a whole text. Masks per token would take longer to draw than the encoder takes to run,
    because they are drawn, like views, from (seed, epoch, sample, view).
    """
    drawn = uniform(masks * width, seed, epoch, samples, view + _DROPOUT).view(-1, masks, width)
    return (drawn >= rate).float() / (1 - rate)
