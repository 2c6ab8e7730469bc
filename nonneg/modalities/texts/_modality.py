"""`Texts`: the modality of texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities._modality import Modality, register
from nonneg.modalities._source import Source
from nonneg.modalities.texts._rows import TextRows, text_rows
from nonneg.modalities.texts._sentence_files import sentence_files
from nonneg.modalities.texts._tokenizer import Tokenizer, fit_tokenizer
from nonneg.modalities.texts._views import ViewConfig, dropout_masks, token_views
from nonneg.modalities.texts.encoders import PREFIX, PooledTexts, Pooling, Transformer, own_pooling, pretrained_encoder
from nonneg.modalities.texts.sources import Columns, ListTable, fault_of, open_texts

TRANSFORMER = "transformer"
_OF_TRANSFORMER = ("vocabulary", "lowercase", "width", "depth", "heads", "dropout")  # settings that only it has
TOKENS, RELATED = "tokens", "related"  # of a batch of texts with partners
_DIGEST = "trained_on"  # in the description of a saved encoder


@register
@dataclass(frozen=True)
class Texts(Modality):
    """Texts of any length and alphabet, as tokens.

    The encoder decides the tokenizer: one that comes with it, or one fitted on the training texts. It is saved with the
    model.
    """

    name: ClassVar[str] = "texts"

    labels: str = ""
    """The column of labels, or a file of them; training needs none. Here and in the next four, empty means none."""
    pairs: str = ""
    """The column of each text's partner, such as its title, or a file of them: the loss compares a text with it."""
    groups: str = ""
    """The column of groups, or a file of them: the loss compares a text with another one of its group."""
    ids: str = ""
    """The column of ids, or a file of them."""
    scores: str = ""
    """The column of the similarity of a text and its partner as people judged it, or a file of them; only measured."""
    skip_broken: bool = False
    """Leave out empty texts and those with invalid characters, and record which; otherwise they are an error."""
    length: Annotated[int, Field(ge=4, le=2**14)] = 64
    """The largest number of tokens of a text; longer texts are cut, and their number is reported."""
    vocabulary: Annotated[int, Field(ge=300, le=2**20)] = 8000
    """The largest number of tokens of a fitted tokenizer."""
    lowercase: bool = True
    """Treat upper-case letters as lower-case ones, for a fitted tokenizer."""
    width: Annotated[int, Field(ge=1, le=2**14)] = 128
    """Width of the encoder transformer."""
    depth: Annotated[int, Field(ge=0, le=64)] = 2
    """Number of layers of the encoder transformer."""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads per layer of the encoder transformer."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of channels that each layer of the encoder transformer hides in training, different for each view."""
    pooling: Pooling = "mean"
    """How the tokens' vectors become one: their mean, the first token's, or their maximum."""
    frozen: bool = False
    """Keep the weights of a transformers: encoder, and train only the projector."""
    adapters: Annotated[int, Field(ge=0, le=1024)] = 0
    """Rank of low-rank adapters, which are trained instead of the weights of a transformers: encoder, and merged into
    them at the end; 0 for none."""
    views: ViewConfig = field(default_factory=ViewConfig)
    """How far a view may differ from its text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise InputError(f"width is {self.width}, expected a multiple of heads, {self.heads}")
        if self.pairs and self.groups:
            raise InputError(f"pairs is {self.pairs!r} and groups is {self.groups!r}, expected at most one of them")
        if self.frozen and self.adapters:
            raise InputError(f"frozen is true with adapters {self.adapters}, expected at most one of them")
        if self.scores and not self.pairs:
            raise InputError(f"scores is {self.scores!r} without pairs, expected the column of partners as well")

    # The tokenizer is part of the encoder's description, not a setting: the encoder decides it.

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, or None before there is an encoder."""
        return getattr(self, "_tokenizer", None)

    @property
    def _trained_on(self) -> str:
        """The digest of the training texts, if a column beside them was a file."""
        return getattr(self, "_digest", "")

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        if isinstance(data, Source):
            text_rows(data.samples, data.name)
            return self._tokenised(data)
        columns = Columns(self.labels, self.pairs, self.groups, self.ids, self.scores)
        skip = self.skip_broken if skip_broken is None else skip_broken
        # Outside training, labels and partners are welcome but not needed.
        needed = self.tokenizer is None
        source = open_texts(data, split, columns, skip_broken=skip, need_columns=needed, trained_on=self._trained_on)
        if needed and len(source) > 1 and len({*source.samples.texts, *(source.samples.pairs or ())}) == 1:
            raise InputError(f"{source.name}: all {len(source):,} texts are the same, expected different ones")
        return self._tokenised(source)

    def open_column(
        self, values: Sequence[Any], where: str, folder: Path, *, skip_broken: bool = False, progress: bool = True
    ) -> tuple[Source, npt.NDArray[np.int64]]:
        """Open the texts of a column."""
        table = ListTable(where, {"text": values, "row": range(len(values))}, "text")
        opened = open_texts(table, columns=Columns(ids="row"), skip_broken=skip_broken)
        texts: TextRows = opened.samples
        first = {text: number for number, text in enumerate(dict.fromkeys(texts.texts))}
        rows = np.full(len(values), -1)
        rows[[int(id) for id in opened.ids]] = [first[text] for text in texts.texts]
        ids = tuple(f"text-{number:06d}" for number in range(len(first)))
        skipped = tuple(f"row {name}" for name in opened.skipped)  # a number and what is wrong with it
        return self._tokenised(Source(where, TextRows(list(first)), ids, skipped=skipped)), rows

    def fitted(self, source: Source) -> Self:
        """Return a copy that can fit a tokenizer on these texts, if the encoder needs one."""
        fitted = replace(self)
        object.__setattr__(fitted, "_source", source)
        object.__setattr__(fitted, "_digest", text_rows(source.samples, source.name)[0].digest)
        return fitted

    def check_encoder(self, name: str) -> None:
        if name != TRANSFORMER and (not name.startswith(PREFIX) or name == PREFIX):
            raise InputError(f"encoder is {name!r}, expected {TRANSFORMER} or {PREFIX}NAME")
        if name == TRANSFORMER and (self.frozen or self.adapters):
            found = "frozen is true" if self.frozen else f"adapters is {self.adapters}"
            raise InputError(f"{found} with encoder {name!r}, expected {PREFIX}NAME: the weights of {name!r} are new")

    def for_encoder(self, name: str) -> tuple[Self, tuple[str, ...]]:
        """Use the pooling of a folder of sentence-transformers; other encoders lack some settings of `transformer`."""
        if name == TRANSFORMER:
            return self, ()
        remarks = [
            f"{item.name} is not used by this encoder"
            for item in fields(self)
            if item.name in _OF_TRANSFORMER and getattr(self, item.name) != item.default
        ]
        pooling = own_pooling(name)
        if pooling is None:
            return self, tuple(remarks)
        return replace(self, pooling=pooling), (f"pooling is {pooling}, as the encoder's folder says", *remarks)

    def encoder(self, name: str, saved: Mapping[str, Any] | None = None) -> tuple[nn.Module, int, dict[str, Any]]:
        self.check_encoder(name)
        if saved is not None:
            object.__setattr__(self, "_digest", str(saved.get(_DIGEST, "")))
        known = {_DIGEST: self._trained_on} if self._trained_on else {}
        if name != TRANSFORMER:
            found = pretrained_encoder(name, self.pooling, self.length, self.frozen, saved, self.adapters)
            object.__setattr__(self, "_tokenizer", found.tokenizer)
            object.__setattr__(self, "_masks", 0)  # its dropout is its own
            return found.encoder, found.width, {**found.description, **known}
        tokenizer = self._saved_tokenizer(saved) if saved is not None else self._fitted_tokenizer()
        object.__setattr__(self, "_tokenizer", tokenizer)
        encoder = Transformer(tokenizer.size, self.length, self.width, self.depth, self.heads, self.pooling)
        return encoder, self.width, {"tokenizer": tokenizer.content, **known}

    def finish(self, encoder: nn.Module) -> None:
        if isinstance(encoder, PooledTexts):
            encoder.finish()

    def load_views(self, source: Source, rows: Tensor, seed: int, epoch: int, count: int) -> Iterator[Any] | None:
        """Yield texts with their partners, `(batch, count, longest)`, if the data has pairs or groups."""
        texts, numbers = text_rows(source.samples, source.name)
        if not texts.has_partners or count < 2:
            return None

        def batch(rows: npt.NDArray[np.int64]) -> dict[str, Tensor]:
            views = torch.from_numpy(texts.views(rows, seed, epoch, count))
            return {TOKENS: views, RELATED: torch.from_numpy(texts.related[rows])}

        return (batch(numbers[some.numpy()]) for some in rows)

    def related(self, batch: Any) -> Tensor | None:
        """Return numbers that are the same for texts of one group, and for texts that share a partner."""
        return batch[RELATED] if isinstance(batch, dict) else None

    def draw_views(
        self, batch: Any, samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> dict[str, Tensor]:
        """Return `tokens`, and the masks `dropout` of the encoder transformer."""
        batch = batch[TOKENS] if isinstance(batch, dict) else batch
        tokens = batch.transpose(0, 1).flatten(0, 1) if batch.ndim == 3 else batch.repeat(count, 1)
        view = torch.arange(count, device=batch.device).repeat_interleave(len(batch))
        samples = samples.repeat(count)
        tokenizer = self.tokenizer
        special, mask = ((), None) if tokenizer is None else (tokenizer.special, tokenizer.mask)
        tokens = token_views(tokens, samples, view, self.views, seed, epoch, special=special, mask=mask)
        masks = getattr(self, "_masks", 1 + 2 * self.depth)
        if not self.dropout or not masks:
            return {TOKENS: tokens}
        drawn = dropout_masks(masks, self.width, self.dropout, seed, epoch, samples, view)
        return {TOKENS: tokens, "dropout": drawn.to(dtype)}

    def inputs(self, batch: Tensor) -> dict[str, Tensor]:
        return {TOKENS: batch}

    def read(self, sample: str | bytes) -> Source:
        """Return a source of one text."""
        text = sample.decode("utf-8", "replace") if isinstance(sample, bytes) else sample
        if fault := fault_of(text):
            raise InputError(f"the text {fault}, expected at least one word")
        return self._tokenised(open_texts([text]))

    def preview(self, source: Source, rows: range) -> dict[str, Any]:
        texts, numbers = text_rows(source.samples, source.name)
        return {"texts": [texts.texts[row] for row in numbers[rows.start : rows.stop]]}

    def files(self, encoder: nn.Module, projector: nn.Sequential) -> dict[str, bytes]:
        """Return what `SentenceTransformer(folder)` reads, so that it gives the same codes without nonneg."""
        tokenizer = self.tokenizer
        return {} if tokenizer is None else sentence_files(encoder, projector, tokenizer, self.length)

    def with_light_views(self) -> Self:
        """Use the texts themselves, without partners and dropout."""
        light = replace(self, views=ViewConfig(), dropout=0.0)
        object.__setattr__(light, "_tokenizer", self.tokenizer)
        object.__setattr__(light, "_digest", self._trained_on)
        return light

    def partners(self, source: Source) -> tuple[Source, Any] | None:
        texts, rows = text_rows(source.samples, source.name)
        if texts.pairs is None:
            return None
        some = texts.take(rows)
        partners = Source(f"{source.name} partners", TextRows(some.pairs or ()), source.ids)
        return self._tokenised(partners), some.scores

    def partner_numbers(self, source: Source) -> Sequence[Any] | None:
        texts, rows = text_rows(source.samples, source.name)
        if texts.pairs is None:
            return None
        partners = np.array([texts.pairs[row] for row in rows], object)  # NumPy's strings would all be equally long
        return list(np.unique(partners, return_inverse=True)[1][:, None])

    def _tokenised(self, source: Source) -> Source:
        if self.tokenizer is None:
            return source
        texts, rows = text_rows(source.samples, source.name)
        is_whole = len(rows) == len(texts) and np.array_equal(rows, np.arange(len(texts)))
        tokenised = (texts if is_whole else texts.take(rows)).tokenised(self.tokenizer, self.length)
        return (
            source if tokenised is source.samples else replace(source, samples=tokenised, notes=tokenised.all_notes())
        )

    def _fitted_tokenizer(self) -> Tokenizer:
        source: Source | None = getattr(self, "_source", None)
        if source is None:
            raise InputError("the tokenizer is missing, expected a modality fitted on texts: Texts().fitted(source)")
        texts, rows = text_rows(source.samples, source.name)
        some = texts.take(rows)
        object.__setattr__(self, "_source", None)
        every = [*some.texts, *(some.pairs or ())]
        return fit_tokenizer(every, self.vocabulary, self.lowercase, with_cls=self.pooling == "cls")

    def _saved_tokenizer(self, saved: Mapping[str, Any]) -> Tokenizer:
        content = saved.get("tokenizer")
        if not isinstance(content, str):
            raise InputError("its tokenizer is missing, expected the content of a tokenizer.json")
        return Tokenizer(content)
