"""A model of texts in the format of sentence-transformers, which loads it without nonneg."""

import json
from typing import Any

import torch
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nonneg.extras import import_extra
from nonneg.modalities._transformers import from_settings
from nonneg.modalities.texts._tokenizer import CLS, MASK, PAD, Tokenizer
from nonneg.modalities.texts.encoders import PooledTexts, Transformer
from nonneg.rectify import NonNegative, folded

_ROOT = "sentence"  # the sub-folder of all files but modules.json
_MODULES = "sentence_transformers.models"
# rep_relu differs from relu only in its gradient.
_ACTIVATIONS = {"relu": "ReLU", "rep_relu": "ReLU", "softplus": "Softplus", "sigmoid": "Sigmoid"}
_SPECIAL = {PAD: "pad_token", MASK: "mask_token", CLS: "cls_token", "[SEP]": "sep_token", "[UNK]": "unk_token"}


def sentence_files(encoder: nn.Module, projector: nn.Sequential, tokenizer: Tokenizer, length: int) -> dict[str, bytes]:
    """Return files by their path in the model's folder; none if sentence-transformers has no such layer.

    Args:
        encoder: a `Transformer`, which is written as a BERT, or a `PooledTexts`.
        projector: what follows it.
        tokenizer: of the encoder.
        length: the largest number of tokens of a text.
    """
    heads = _dense_layers(projector)
    if heads is None or not isinstance(encoder, Transformer | PooledTexts):
        return {}
    config, weights = _bert(encoder, length) if isinstance(encoder, Transformer) else _other(encoder)
    width = config["hidden_size"]
    pooling = {"embedding_dimension": width, "pooling_mode": encoder.pooling, "include_prompt": True}
    folders: list[tuple[str, dict[str, bytes]]] = [
        ("Transformer", _transformer_files(config, weights, tokenizer, length)),
        ("Pooling", {"config.json": _json(pooling)}),
        *(("Dense", files) for files in heads),
    ]
    listed = [
        {"idx": i, "name": str(i), "path": f"{_ROOT}/{i}_{kind}", "type": f"{_MODULES}.{kind}"}
        for i, (kind, _) in enumerate(folders)
    ]
    files = {
        f"{_ROOT}/{i}_{kind}/{name}": each for i, (kind, some) in enumerate(folders) for name, each in some.items()
    }
    return {**files, "modules.json": _json(listed)}


def _dense_layers(projector: nn.Sequential) -> list[dict[str, bytes]] | None:
    """Return the files of each linear layer with its activation; None if it cannot be written so."""
    layers = list(folded(projector))
    found: list[dict[str, bytes]] = []
    while layers:
        linear = layers.pop(0)
        if not isinstance(linear, nn.Linear):
            return None
        weights = {"linear.weight": linear.weight, **({} if linear.bias is None else {"linear.bias": linear.bias})}
        if layers and isinstance(norm := layers[0], _BatchNorm):
            layers.pop(0)
            statistics: Any = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
            fused = nn.utils.fusion.fuse_linear_bn_weights(linear.weight, linear.bias, *statistics)
            weights = dict(zip(("linear.weight", "linear.bias"), fused, strict=True))
        activation: str | None = "Identity"
        if layers and isinstance(layers[0], nn.ReLU | NonNegative):
            last: Any = layers.pop(0)
            activation = "ReLU" if isinstance(last, nn.ReLU) else _ACTIVATIONS.get(last.kind)
        if activation is None:
            return None
        module = "linear" if activation == "Identity" else "activation"
        settings = {
            "in_features": linear.in_features,
            "out_features": linear.out_features,
            "bias": "linear.bias" in weights,
            "activation_function": f"torch.nn.modules.{module}.{activation}",
        }
        found.append({"config.json": _json(settings), "model.safetensors": _tensors(weights)})
    return found or None


def _transformer_files(
    config: dict[str, Any], weights: dict[str, Tensor], tokenizer: Tokenizer, length: int
) -> dict[str, bytes]:
    known = {role: token for token, role in _SPECIAL.items() if tokenizer.knows(token)}
    reader = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length, **known}
    reader["split_special_tokens"] = True  # a text that contains "[MASK]" holds these six characters, as in `Tokenizer`
    return {
        "config.json": _json(config),
        "model.safetensors": _tensors(weights),
        "tokenizer.json": tokenizer.content.encode(),
        "tokenizer_config.json": _json(reader),
        "sentence_bert_config.json": _json({"max_seq_length": length, "do_lower_case": False}),
    }


def _other(encoder: PooledTexts) -> tuple[dict[str, Any], dict[str, Tensor]]:
    settings: Any = encoder.backbone.config
    with torch.device("meta"):
        as_loaded = from_settings(import_extra("transformers", "a model of transformers"), settings).state_dict()
    # Transformers would warn that the pooler is missing, which sentence-transformers does not use.
    pooler = {name: torch.zeros(like.shape) for name, like in as_loaded.items() if name.startswith("pooler.")}
    return {**settings.to_dict(), "model_type": settings.model_type}, {**pooler, **encoder.backbone.state_dict()}


def _bert(encoder: Transformer, length: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config and weights of the same network as a BertModel."""
    vocabulary, width = encoder.tokens.weight.shape
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": len(encoder.layers),
        "num_attention_heads": encoder.heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": length,
        "type_vocab_size": 1,
        "hidden_act": "gelu",
        "layer_norm_eps": encoder.norm.eps,
        "pad_token_id": 0,
    }
    start = "embeddings"
    weights = {
        f"{start}.word_embeddings.weight": encoder.tokens.weight,
        f"{start}.position_embeddings.weight": encoder.positions.weight,
        f"{start}.token_type_embeddings.weight": torch.zeros(1, width),
        f"{start}.LayerNorm.weight": encoder.norm.weight,
        f"{start}.LayerNorm.bias": encoder.norm.bias,
        # BertModel has a pooler, which sentence-transformers does not use.
        "pooler.dense.weight": torch.zeros(width, width),
        "pooler.dense.bias": torch.zeros(width),
    }
    for number, layer in enumerate(encoder.layers):
        ours: dict[str, Any] = layer.state_dict()
        start = f"encoder.layer.{number}"
        for kind in ("weight", "bias"):
            parts = ours[f"attention.{kind}"].chunk(3)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                weights[f"{start}.attention.self.{name}.{kind}"] = part
            weights[f"{start}.attention.output.dense.{kind}"] = ours[f"attended.{kind}"]
            weights[f"{start}.attention.output.LayerNorm.{kind}"] = ours[f"attended_norm.{kind}"]
            weights[f"{start}.intermediate.dense.{kind}"] = ours[f"hidden.{kind}"]
            weights[f"{start}.output.dense.{kind}"] = ours[f"output.{kind}"]
            weights[f"{start}.output.LayerNorm.{kind}"] = ours[f"output_norm.{kind}"]
    return config, weights


def _tensors(weights: dict[str, Tensor]) -> bytes:
    there = {name: tensor.detach().float().cpu().contiguous().clone() for name, tensor in weights.items()}
    return save_tensors(there, metadata={"format": "pt"})


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1, default=str).encode()
