"""Configs of transformers models, which may come from anyone: nothing in them runs code or downloads weights."""

import re
from typing import Any

import torch

from nonneg.errors import InputError

# Removed from a transformers config before it is saved and after it is read: fields that could name code or weights
# to download, that list classes, or that choose an implementation.
_DROPPED = re.compile(
    r"_.*|.*auto_map|.*_implementation|.*quantization.*|(torch_)?dtype|id2label|label2id|num_labels|architectures"
    r"|.*pretrained.*|backbone(_kwargs)?|trust_remote_code"
)
_LARGEST_NUMBER = 2**20  # some configs create a list of this length


def settings_of(transformers: Any, content: Any) -> Any:
    """Create a config object of transformers from an untrusted dictionary."""
    kept = cleaned(content) if isinstance(content, dict) else {}
    kind = kept.pop("model_type", None)
    if not isinstance(kind, str) or kind.startswith("timm"):
        raise InputError(f"its model_type is {kind!r}, expected a model of transformers itself")
    return transformers.AutoConfig.for_model(kind, **kept)


def cleaned(value: Any) -> Any:
    """Return a config without the fields that could run code or download weights."""
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items() if not _DROPPED.fullmatch(str(key))}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        raise InputError(f"its config holds the number {value}, expected at most {_LARGEST_NUMBER}")
    return value


def from_settings(transformers: Any, settings: Any) -> Any:
    """Build a network with new weights."""
    return transformers.AutoModel.from_config(settings, trust_remote_code=False, dtype=torch.float32)


def with_weights(transformers: Any, place: str, settings: Any) -> tuple[Any, list[str]]:
    """Build a network with the published weights; return it and the names of those that were missing and are random."""
    backbone, found = transformers.AutoModel.from_pretrained(
        place,
        config=settings,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=torch.float32,
        output_loading_info=True,
    )
    return backbone, sorted(found["missing_keys"])
