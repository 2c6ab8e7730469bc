"""`Transformer`: a small encoder of texts in plain torch, trained from scratch."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Pooling = Literal["mean", "cls", "max"]
_AT_ONCE = 64  # texts of similar length that are encoded together on a CPU
_SPREAD = 0.02  # standard deviation of new weights, as in BERT


class Transformer(nn.Module):
    """A transformer with BERT's layers, without its pooler.

    Args:
        vocabulary: number of tokens.
        length: the largest number of tokens of a text.
        width: of each layer, a multiple of `heads`.
        depth: number of layers.
        heads: attention heads per layer.
        pooling: how the tokens' vectors become one: their mean, the first one, or their maximum.

    Shape: a dictionary with `tokens`, `(texts, longest)` integers, -1 after the last token of a text, and in training
    perhaps `dropout`, `(texts, 1 + 2 · depth, width)`, to `(texts, width)`.

    Example:
        >>> encoder = Transformer(vocabulary=10, length=8, width=16, depth=1, heads=2)
        >>> encoder({"tokens": torch.tensor([[4, 5, 6], [7, -1, -1]])}).shape
        torch.Size([2, 16])
    """

    def __init__(
        self, vocabulary: int, length: int, width: int, depth: int, heads: int, pooling: Pooling = "mean"
    ) -> None:
        super().__init__()
        self.pooling, self.heads = pooling, heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(depth))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=_SPREAD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return in_order_of_length(self._encode, inputs)

    def _encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        tokens, dropout = inputs["tokens"], inputs.get("dropout")
        is_token = tokens >= 0
        masks = count()

        def drop(x: Tensor) -> Tensor:
            return x if dropout is None else x * dropout[:, next(masks), None]

        positions = self.positions.weight[: tokens.shape[1]]
        x = drop(self.norm(self.tokens(tokens.clamp(min=0)) + positions))
        for layer in self.layers:
            x = layer(x, is_token, drop)
        return pooled(x, is_token, self.pooling)


class _Layer(nn.Module):
    """Attention, then two linear layers, each added to its input and normalised."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.attended_norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)
        self.output_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, is_token: Tensor, drop: Callable[[Tensor], Tensor]) -> Tensor:
        rows, longest, width = x.shape
        q, k, v = self.attention(x).view(rows, longest, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=is_token[:, None, None])
        x = self.attended_norm(x + drop(self.attended(found.transpose(1, 2).reshape(rows, longest, width))))
        hidden = F.gelu(self.hidden(x))
        normed: Tensor = self.output_norm(x + drop(self.output(hidden)))
        return normed


def pooled(x: Tensor, is_token: Tensor, pooling: Pooling) -> Tensor:
    """Return one vector per text, `(texts, width)`, from those of its tokens, `(texts, longest, width)`.

    Example:
        >>> x = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> is_token = torch.tensor([[True, True, False]])
        >>> [pooled(x, is_token, pooling).item() for pooling in ("mean", "cls", "max")]
        [2.0, 1.0, 3.0]
    """
    if pooling == "cls":
        return x[:, 0]
    if pooling == "max":
        return x.masked_fill(~is_token[:, :, None], -torch.inf).amax(1)
    weights = is_token.to(x.dtype)[:, :, None]
    return (x * weights).sum(1) / weights.sum(1)


def in_order_of_length(encode: Callable[[Mapping[str, Tensor]], Tensor], inputs: Mapping[str, Tensor]) -> Tensor:
    """Encode texts of similar length together on a CPU, so that little is computed for padding.

    On other devices all rows are computed at once: up to the longest one, or, in code that is compiled for one shape,
    up to the longest one of the data.
    """
    tokens = inputs["tokens"]
    is_on_cpu = tokens.device.type == "cpu"
    if tokens.is_meta or (not is_on_cpu and torch.compiler.is_compiling()):
        return encode(inputs)
    lengths = (tokens >= 0).sum(1)
    if not is_on_cpu:
        return encode({**inputs, "tokens": tokens[:, : int(lengths.max())]})
    order = lengths.argsort(stable=True)
    parts = []
    for rows in order.split(_AT_ONCE):
        some = {name: values[rows] for name, values in inputs.items()}
        some["tokens"] = some["tokens"][:, : int(lengths[rows[-1]])]
        parts.append(encode(some))
    return torch.cat(parts)[order.argsort()]
