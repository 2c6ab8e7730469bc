"""Encoders of texts from transformers and sentence-transformers: `transformers:NAME_OR_PATH`. Needs the extra."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from nonneg.durable import read_object
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.modalities._transformers import cleaned, from_settings, settings_of, with_weights
from nonneg.modalities.texts._tokenizer import Tokenizer
from nonneg.modalities.texts.encoders._adapters import add_adapters, merge_adapters
from nonneg.modalities.texts.encoders._transformer import Pooling, in_order_of_length, pooled

PREFIX = "transformers:"
_OWN_CODE = "it comes with code of its own, which is never run; expected a model without code"
_POOLINGS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}


class Pretrained(NamedTuple):
    """An encoder of another library, its width, its tokenizer, and the description needed to rebuild it."""

    encoder: "PooledTexts"
    width: int
    tokenizer: Tokenizer
    description: dict[str, Any]


class PooledTexts(nn.Module):
    """A model of transformers that returns one vector per text.

    Args:
        backbone: the model, from `input_ids` to vectors of tokens.
        pooling: how the tokens' vectors become one.
        frozen: keep the weights as they are; only what follows is trained.
        adapters: the rank of low-rank adapters, which are trained instead of the weights; 0 for none.

    Shape: a dictionary with `tokens`, `(texts, longest)` integers, -1 after the last token, to `(texts, width)`.
    """

    def __init__(self, backbone: nn.Module, pooling: Pooling, frozen: bool, adapters: int = 0) -> None:
        super().__init__()
        self.backbone, self.pooling, self.frozen, self.adapters = backbone, pooling, frozen, adapters
        if frozen:
            backbone.requires_grad_(False)
        if adapters:
            add_adapters(backbone, adapters)

    def finish(self) -> None:
        """Merge adapters into the weights: the saved encoder is one without adapters."""
        if self.adapters:
            merge_adapters(self.backbone)
            self.adapters = 0

    def train(self, mode: bool = True) -> "PooledTexts":
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return in_order_of_length(self._encode, inputs)

    def _encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        tokens = inputs["tokens"]
        is_token = tokens >= 0
        output = self.backbone(input_ids=tokens.clamp(min=0).long(), attention_mask=is_token.long())
        return pooled(output.last_hidden_state, is_token, self.pooling)


def pretrained_encoder(
    name: str, pooling: Pooling, length: int, frozen: bool, saved: Mapping[str, Any] | None, adapters: int = 0
) -> Pretrained:
    """Build an encoder of transformers; code in a model's folder is never run.

    Args:
        name: `transformers:NAME_OR_PATH`: a model on the hub, a folder of transformers, or one of
            sentence-transformers, whose own pooling is used.
        pooling: how the tokens' vectors become one, unless the folder decides that.
        length: the largest number of tokens of a text.
        frozen: keep its weights.
        saved: the description in a saved model; then nothing is downloaded, and adapters are merged already.
        adapters: the rank of low-rank adapters; 0 for none.
    """
    transformers = import_extra("transformers", name)
    try:
        if saved is not None:
            tokenizer = Tokenizer(str(saved.get("tokenizer")))
            pooling = _known_pooling(saved.get("pooling"))
            backbone = from_settings(transformers, settings_of(transformers, saved.get("config")))
        else:
            place, pooling = _sentence_model(name.removeprefix(PREFIX), pooling)
            settings, tokenizer = _settings_and_tokenizer(transformers, place)
            backbone, absent = with_weights(transformers, place, settings)
            if missing := [name for name in absent if not name.startswith("pooler.")]:  # transformers has drawn them
                kind = backbone.config.model_type
                raise InputError(f"its weights lack {len(missing)} of those of a {kind}, such as {missing[0]}")
        _check(backbone, tokenizer, length)
    except Exception as error:  # transformers raises whatever its models, the network or the file system raise
        raise InputError(f"encoder {name!r} cannot be built: {one_line(error)}") from error
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None  # its output is not used
    description = {
        "config": {"model_type": backbone.config.model_type, **cleaned(backbone.config.to_dict())},
        "pooling": pooling,
        "tokenizer": tokenizer.content,
    }
    encoder = PooledTexts(backbone, pooling, frozen, adapters if saved is None else 0)
    return Pretrained(encoder, int(backbone.config.hidden_size), tokenizer, description)


def own_pooling(name: str) -> Pooling | None:
    """Return the pooling that a folder of sentence-transformers decides, or None for any other encoder."""
    place = name.removeprefix(PREFIX)
    if place == name or not (Path(place) / "modules.json").is_file():
        return None
    try:
        return _sentence_model(place, "mean")[1]
    except InputError as error:
        raise InputError(f"encoder {name!r} cannot be built: {error}") from error


def _settings_and_tokenizer(transformers: Any, place: str) -> tuple[Any, Tokenizer]:
    try:
        found = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False)
        reader = transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=False, use_fast=True)
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise InputError(_OWN_CODE) from error
        raise
    if getattr(found, "auto_map", None) or reader.init_kwargs.get("auto_map"):
        raise InputError(_OWN_CODE)
    tokenizer = Tokenizer(reader.backend_tokenizer.to_str())
    if tokenizer.size <= len(reader.all_special_tokens):  # what transformers returns if the files are missing
        raise InputError("its tokenizer is missing or knows no words, expected a tokenizer.json")
    return settings_of(transformers, {"model_type": found.model_type, **found.to_dict()}), tokenizer


def _check(backbone: Any, tokenizer: Tokenizer, length: int) -> None:
    settings = backbone.config
    if backbone.main_input_name != "input_ids" or getattr(settings, "is_encoder_decoder", False):
        raise InputError(f"it is a {settings.model_type}, expected an encoder of texts such as BERT")
    known = backbone.get_input_embeddings().num_embeddings
    if tokenizer.size > known:
        raise InputError(f"its tokenizer has {tokenizer.size} tokens, expected at most {known}, as in its weights")
    most = getattr(settings, "max_position_embeddings", None)
    if isinstance(most, int) and length > most:
        raise InputError(f"length is {length}, expected at most {most} tokens")


def _sentence_model(place: str, pooling: Pooling) -> tuple[str, Pooling]:
    """Return the folder of the transformer and the pooling of a sentence-transformers folder; others are unchanged."""
    folder = Path(place)
    if not (folder / "modules.json").is_file():
        return place, pooling
    modules = read_object(folder / "modules.json", parse=lambda text: {"list": json.loads(text)})["list"]
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise InputError(f"{folder / 'modules.json'} holds no list of modules")
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or set(kinds[2:]) - {"Normalize"}:
        raise InputError(f"it holds the modules {', '.join(kinds)}, expected Transformer, Pooling, Normalize")
    settings = read_object(folder / str(modules[1].get("path")) / "config.json")
    modes = [mode for key, mode in _POOLINGS.items() if settings.get(key)]
    mode = settings.get("pooling_mode") or next(iter(modes), None)
    return str(folder / str(modules[0].get("path"))), _known_pooling(mode)


def _known_pooling(found: Any) -> Pooling:
    if found not in _POOLINGS.values():
        raise InputError(f"its pooling is {found!r}, expected one of {', '.join(_POOLINGS.values())}")
    known: Pooling = found
    return known
