"""`NonNegativeHead`: a sentence-transformers module, so that a sentence model encodes text straight into codes."""

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

_missing: ImportError | None = None
try:
    Module: Any = importlib.import_module("sentence_transformers.base.modules").Module
except ImportError as error:  # said when the head is used, so that this file can be imported anywhere
    Module, _missing = nn.Module, error


class NonNegativeHead(Module):  # type: ignore[misc]
    """The fitted head of a `NonNegativeEmbedding` behind the pooling of a sentence model.

        model = SentenceTransformer(modules=[transformer, pooling, NonNegativeHead.of(embedding)])
        codes = model.encode(texts)  # what embedding.transform makes of the pooled vectors, as a dense array
        model.save("codes")
        model = SentenceTransformer("codes", trust_remote_code=True)

    sentence-transformers 6 asks for `trust_remote_code=True` before it imports a module of any other package,
    this one too, and then runs whatever code the folder names: say so of folders that you trust. A model of
    `NonNegativeHead.builtin` needs no such word.

    Args:
        head: from vectors of length 1 to codes.

    Shape: `sentence_embedding`, `(texts, width)`, becomes `(texts, features)` in float32, rows of length 1 or,
    where no feature is active, of zeros.
    """

    __module__ = "nonneg.convert"  # the path that a saved model names: the public one, which stays
    config_keys = ("max_active",)

    def __init__(self, head: Head) -> None:
        _require_sentence_transformers()
        super().__init__()
        self.head = head

    @classmethod
    def of(cls, embedding: NonNegativeEmbedding) -> Self:
        """The head of a fitted embedding: a copy, which further training of the model does not share with it."""
        check_is_fitted(embedding)
        return cls(_head(embedding.head_.state_dict(), embedding.head_.max_active))

    @staticmethod
    def builtin(embedding: NonNegativeEmbedding) -> list[nn.Module]:
        """The same codes by three modules of sentence-transformers itself, to stand where the head would.

        A model saved with them loads as any other, without `trust_remote_code` and where nonneg is not
        installed; in a `SparseEncoder` codes come out as sparse tensors.
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
        """How many features may be active on a text; None for no limit."""
        return self.head.max_active

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        pooled = features["sentence_embedding"]
        width = self.head.weight.shape[1]
        if pooled.shape[-1] != width:
            raise ValueError(f"the sentence vectors have {pooled.shape[-1]} numbers, the head was fitted on {width}")
        codes = self.head(F.normalize(pooled.float(), dim=1).to(self.head.weight.dtype))
        features["sentence_embedding"] = F.normalize(codes.float(), dim=1)
        return features

    def get_embedding_dimension(self) -> int:
        """Features of a code."""
        return int(self.head.weight.shape[0])

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write `config.json` and `model.safetensors`; never a pickle, whatever is asked for."""
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
        """Read what `save` wrote, in a folder or in a model of the hub."""
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
            f" ({' '.join(str(_missing).split())}): pip install 'nonneg[sentence]'"
        ) from _missing
