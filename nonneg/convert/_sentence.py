"""`NonNegativeHead`: a sentence-transformers module, with which a sentence model encodes text into codes."""

import importlib
from typing import Any, Self

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._head import Head
from nonneg.errors import InputError
from nonneg.messages import one_line

_missing: ImportError | None = None
try:
    Module: Any = importlib.import_module("sentence_transformers.base.modules").Module
except ImportError as error:  # raised when the head is used, so that this file can always be imported
    Module, _missing = nn.Module, error


class NonNegativeHead(Module):  # type: ignore[misc]
    """The fitted head of a `NonNegativeEmbedding` as the last module of a sentence model, after the pooling.

        model = SentenceTransformer(modules=[transformer, pooling, NonNegativeHead.of(embedding)])
        codes = model.encode(texts)  # embedding.transform of the pooled vectors, as a dense array
        model.save("codes")
        model = SentenceTransformer("codes", trust_remote_code=True)

    sentence-transformers 6 requires `trust_remote_code=True` before it imports modules of other packages, such as
    this one, and then runs any code that the folder names: use it only for folders that you trust. Models with
    `NonNegativeHead.builtin` do not need it.

    Args:
        head: maps unit vectors to codes.

    Shape: `sentence_embedding`, `(texts, width)`, becomes `(texts, features)` in float32; each row has length 1, or
    is zero if no feature is active.
    """

    __module__ = "nonneg.convert"  # saved models refer to the public path
    config_keys = ("max_active",)

    def __init__(self, head: Head) -> None:
        _require_sentence_transformers()
        super().__init__()
        self.head = head

    @classmethod
    def of(cls, embedding: NonNegativeEmbedding) -> Self:
        """A copy of the head of a fitted embedding; training the model further does not change the embedding."""
        check_is_fitted(embedding)
        return cls(_head(embedding.head_.state_dict(), embedding.head_.max_active))

    @staticmethod
    def builtin(embedding: NonNegativeEmbedding) -> list[nn.Module]:
        """Three modules of sentence-transformers itself that compute the same codes, to use instead of the head.

        A model saved with them loads like any other, without `trust_remote_code` and without nonneg. In a
        `SparseEncoder`, the codes are sparse tensors.
        """
        _require_sentence_transformers()
        check_is_fitted(embedding)
        normalize = importlib.import_module("sentence_transformers.sentence_transformer.modules").Normalize
        encoder_class = importlib.import_module("sentence_transformers.sparse_encoder.modules").SparseAutoEncoder
        head = embedding.head_
        features, width = head.weight.shape
        encoder = encoder_class(width, features, k=min(head.max_active or features, features), k_aux=0)
        with torch.no_grad():
            encoder.encoder.weight.copy_(head.weight)
            encoder.latent_bias.copy_(head.bias)
        return [normalize(), encoder, normalize()]

    @property
    def max_active(self) -> int | None:
        """Maximum number of active features per text; None for no limit."""
        return self.head.max_active

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        pooled = features["sentence_embedding"]
        width = self.head.weight.shape[1]
        if pooled.shape[-1] != width:
            raise ValueError(f"the sentence vectors have {pooled.shape[-1]} numbers, expected {width}, as in the fit")
        codes = self.head(F.normalize(pooled.float(), dim=1).to(self.head.weight.dtype))
        features["sentence_embedding"] = F.normalize(codes.float(), dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        """The number of features."""
        return int(self.head.weight.shape[0])

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write `config.json` and `model.safetensors`; never a pickle, even if `safe_serialization` is False."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=True)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **_: Any,
    ) -> Self:
        """Load from a folder or from a model on the hub."""
        _require_sentence_transformers()
        where = {
            "subfolder": subfolder,
            "token": token,
            "cache_folder": cache_folder,
            "revision": revision,
            "local_files_only": local_files_only,
        }
        config = cls.load_config(model_name_or_path, **where)
        weights = cls.load_file_path(model_name_or_path, filename="model.safetensors", **where)
        if weights is None or "max_active" not in config:
            raise InputError(
                f"{model_name_or_path!r} has no head in {subfolder!r}: expected config.json with max_active, and"
                " model.safetensors"
            )
        state = {name.removeprefix("head."): value for name, value in load_file(weights).items()}
        return cls(_head(state, config["max_active"]))


def _head(state: dict[str, Tensor], max_active: int | None) -> Head:
    features, width = state["weight"].shape
    head = Head(width, features, max_active)
    head.load_state_dict(state)
    return head


def _require_sentence_transformers() -> None:
    if _missing is not None:
        raise ImportError(
            "NonNegativeHead needs the package sentence-transformers, which cannot be imported"
            f" ({one_line(_missing)}): pip install 'nonneg[sentence]'"
        ) from _missing
