"""Tokenizers: fitted on texts, read from JSON, and applied to many texts at once. Needs the extra `text`."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line

PAD, MASK, CLS = "[PAD]", "[MASK]", "[CLS]"
_LONGEST_WORD = 64  # characters; longer words are divided, because the time of a merge grows with the word
_AT_ONCE = 10_000  # texts
_UNKNOWN = "𓀀 𐇐 𒀀"  # hieroglyph, disc of Phaistos, cuneiform: in no vocabulary but of bytes


class Tokens(NamedTuple):
    """Token numbers of many texts.

    Attributes:
        values: `(tokens,)` int32, those of the first text, then those of the second one, ….
        starts: `(texts + 1,)` int64, where each text starts in `values`.
        cut: how many texts were longer than the limit and were cut.
    """

    values: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    cut: int

    @property
    def longest(self) -> int:
        """The number of tokens of the longest text."""
        return int(np.diff(self.starts).max(initial=1))

    def padded(self, rows: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int32]:
        """Return the tokens of some texts, `(rows, width)` int32, with -1 after the last token.

        Example:
            >>> Tokens(np.array([5, 6, 7], np.int32), np.array([0, 1, 3]), 0).padded(np.array([1, 0]), 2)
            array([[ 6,  7],
                   [ 5, -1]], dtype=int32)
        """
        start, columns = self.starts[rows], np.arange(width)
        inside = columns < (self.starts[rows + 1] - start)[:, None]
        padded = np.full((len(rows), width), -1, np.int32)
        padded[inside] = self.values[(start[:, None] + columns)[inside]]
        return padded


class Tokenizer:
    """A tokenizer of Hugging Face's `tokenizers`, from its JSON.

    Args:
        content: the JSON, as in a file `tokenizer.json`.

    Attributes:
        special: numbers of the tokens that it adds to a text, such as [CLS]; views keep them.
        mask: the number of the token that hides others, or None.
        size: the number of tokens that it knows.
    """

    def __init__(self, content: str) -> None:
        self.content = content
        library = import_extra("tokenizers", "a tokenizer", extra="text")
        try:
            self._encoder = library.Tokenizer.from_str(content)
            self._encoder.no_padding()
            self._encoder.no_truncation()
            # A text that contains "[MASK]" holds these six characters, not the special token.
            self._encoder.encode_special_tokens = True
            self.special = tuple(sorted(set(self._encoder.encode("").ids)))
            self._encoder.encode(_UNKNOWN)  # fails if it needs a token for unknown words and has none
        except Exception as error:  # tokenizers raises plain exceptions
            raise InputError(f"the tokenizer cannot be read: {one_line(error)}") from error
        self.size = int(self._encoder.get_vocab_size(with_added_tokens=True))
        names = (MASK, "<mask>")
        self.mask = next((n for n in map(self._encoder.token_to_id, names) if n is not None), None)

    def knows(self, token: str) -> bool:
        """Whether a token is in the vocabulary."""
        return self._encoder.token_to_id(token) is not None

    def encode(self, texts: Sequence[str], length: int) -> Tokens:
        """Return the tokens of texts, at most `length` per text and at least one."""
        values, lengths, cut = [], [], 0
        self._encoder.enable_truncation(length)
        for start in range(0, len(texts), _AT_ONCE):
            for encoded in self._encoder.encode_batch_fast(list(texts[start : start + _AT_ONCE])):
                ids = encoded.ids or [self.mask or 0]
                values.append(np.array(ids, np.int32))
                lengths.append(len(ids))
                cut += bool(encoded.overflowing)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Tokens(np.concatenate(values or [np.zeros(0, np.int32)]), starts, cut)


def fit_tokenizer(texts: Iterable[str], vocabulary: int, lowercase: bool, with_cls: bool) -> Tokenizer:
    """Fit a byte-level BPE tokenizer, which knows every alphabet; the same for the same texts.

    Args:
        texts: the texts.
        vocabulary: the largest number of tokens.
        lowercase: treat upper-case letters as lower-case ones.
        with_cls: put a token [CLS] before each text.
    """
    library: Any = import_extra("tokenizers", "a tokenizer fitted on texts", extra="text")
    normalizers, splits = library.normalizers, library.pre_tokenizers
    tokenizer = library.Tokenizer(library.models.BPE())
    steps = [normalizers.NFKC(), *([normalizers.Lowercase()] if lowercase else [])]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = splits.Sequence(
        [
            splits.WhitespaceSplit(),
            splits.Punctuation(),
            splits.Split(library.Regex(f".{{{_LONGEST_WORD}}}"), "isolated"),
            splits.ByteLevel(add_prefix_space=True, use_regex=False),
        ]
    )
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, MASK, CLS],
        initial_alphabet=splits.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if with_cls:
        tokenizer.post_processor = library.processors.TemplateProcessing(
            single=f"{CLS} $A", special_tokens=[(CLS, tokenizer.token_to_id(CLS))]
        )
    return Tokenizer(tokenizer.to_str())
